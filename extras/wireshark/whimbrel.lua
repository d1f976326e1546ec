-- Decodes Whimbrel's chunks and parameters in Wireshark and tshark, behind their own dissector of SCTP, and finds in the comments of a
-- simulated capture why the network dropped a packet. Formats: crates/wire/src/chunk/{timestamp,new_gaps,sack}.rs,
-- crates/wire/src/parameter.rs.
--
-- Install: copy this file into the folder "Personal Lua Plugins" of Help > About Wireshark > Folders, or `tshark -X lua_script:whimbrel.lua`.

local whimbrel = Proto("whimbrel", "Whimbrel's extensions of SCTP")

local SACK, NR_SACK, NEW_GAPS, TIMESTAMP = 3, 16, 189, 190
local NAMES = { [SACK] = "SACK", [NR_SACK] = "NR-SACK" }
local PARAMETERS = { [0xbe01] = "Timestamps", [0xbe02] = "ECI capable", [0xbe03] = "NEW GAPS",
  [0xbe04] = "Repeated timestamps" }
-- Drops by queues; every other cause is a transmission loss or a broken link (crates/sim/src/ledger.rs).
local CONGESTION = { ["queue-full"] = true, ["red-early"] = true, ["red-forced"] = true, ["codel"] = true }

local fields = {
  chunk = ProtoField.string("whimbrel.chunk", "Chunk"),
  returned = ProtoField.bool("whimbrel.timestamp.returned", "Times of a packet in the other direction"),
  sent = ProtoField.uint32("whimbrel.timestamp.sent", "Departure, us modulo 2^32"),
  received = ProtoField.uint32("whimbrel.timestamp.received", "Arrival, us modulo 2^32"),
  one_way = ProtoField.uint32("whimbrel.timestamp.difference", "Arrival less departure, us modulo 2^32 (of two clocks)"),
  cumulative = ProtoField.uint32("whimbrel.new_gaps.cumulative_tsn_ack", "Cumulative TSN ack"),
  rwnd = ProtoField.uint32("whimbrel.new_gaps.a_rwnd", "Advertised receiver window, bytes"),
  serial = ProtoField.uint16("whimbrel.new_gaps.serial", "Serial number"),
  everything = ProtoField.bool("whimbrel.new_gaps.everything", "All blocks beyond gaps"),
  block = ProtoField.string("whimbrel.new_gaps.block", "Gap ack block"),
  renounced = ProtoField.string("whimbrel.new_gaps.renounced", "Renounced block"),
  duplicate = ProtoField.uint32("whimbrel.new_gaps.duplicate", "Duplicate TSN"),
  eci = ProtoField.bool("whimbrel.eci", "Congestion indication echoed"),
  parameter = ProtoField.string("whimbrel.parameter", "Parameter"),
  dropped = ProtoField.string("whimbrel.dropped", "Dropped by the simulated network"),
  loss = ProtoField.string("whimbrel.loss", "Kind of loss"),
}
whimbrel.fields = fields

local chunk_type = Field.new("sctp.chunk_type")
local parameter_type = Field.new("sctp.parameter_type")
local comment = Field.new("frame.comment")

--- Whether a bit is set. Lua 5.2 has no operators for bits, later versions have no library for them.
local function has(flags, bit)
  return math.floor(flags / bit) % 2 == 1
end

--- The two lists of blocks and the duplicates of NEW GAPS.
local function lists(tree, chunk)
  local length = chunk(2, 2):uint()
  if length < 20 or chunk:len() < 20 then return end
  local cumulative = chunk(4, 4):uint()
  tree:add(fields.cumulative, chunk(4, 4))
  tree:add(fields.rwnd, chunk(8, 4))
  local counts = { chunk(12, 2):uint(), chunk(14, 2):uint() }
  local at = 20
  for list, count in ipairs(counts) do
    for _ = 1, count do
      if at + 4 > math.min(length, chunk:len()) then return end
      local first, last = cumulative + chunk(at, 2):uint(), cumulative + chunk(at + 2, 2):uint()
      local text = string.format("TSN %.0f to %.0f", first % 4294967296, last % 4294967296)
      if list == 1 then tree:add(fields.block, chunk(at, 4), text) else tree:add(fields.renounced, chunk(at, 4), text) end
      at = at + 4
    end
  end
  for _ = 1, chunk(16, 2):uint() do
    if at + 4 > math.min(length, chunk:len()) then return end
    tree:add(fields.duplicate, chunk(at, 4))
    at = at + 4
  end
end

function whimbrel.dissector(buffer, pinfo, tree)
  local root
  local function branch()
    root = root or tree:add(whimbrel, buffer(0, 0))
    return root
  end
  local column = {}

  for _, info in ipairs({ chunk_type() }) do
    local offset, kind = info.offset, info.value
    if kind == TIMESTAMP or kind == NEW_GAPS or kind == NR_SACK or kind == SACK then
      local chunk = buffer(offset)
      if chunk:len() >= 4 then
        chunk = buffer(offset, math.min(chunk:len(), math.max(4, chunk(2, 2):uint())))
        local flags = chunk(1, 1):uint()
        if kind == TIMESTAMP and chunk:len() >= 12 then
          local part = branch():add(fields.chunk, chunk, "TIMESTAMP")
          local returned = has(flags, 1)
          part:add(fields.returned, chunk(1, 1), returned)
          part:add(fields.sent, chunk(4, 4))
          if returned then
            part:add(fields.received, chunk(8, 4))
            part:add(fields.one_way, chunk(4, 8), (chunk(8, 4):uint() - chunk(4, 4):uint()) % 4294967296)
          end
          column[#column + 1] = returned and "TIMESTAMP (returned)" or "TIMESTAMP"
        elseif kind == NEW_GAPS and chunk:len() >= 20 then
          local part = branch():add(fields.chunk, chunk, "NEW GAPS")
          part:add(fields.everything, chunk(1, 1), has(flags, 1))
          part:add(fields.serial, chunk(18, 2))
          part:add(fields.eci, chunk(1, 1), has(flags, 2))
          lists(part, chunk)
          column[#column + 1] = "NEW GAPS"
        elseif NAMES[kind] and has(flags, 2) then
          branch():add(fields.chunk, chunk, NAMES[kind]):add(fields.eci, chunk(1, 1), true)
          column[#column + 1] = "ECI"
        end
      end
    end
  end

  for _, info in ipairs({ parameter_type() }) do
    local name = PARAMETERS[info.value]
    if name then branch():add(fields.parameter, buffer(info.offset, 4), name) end
  end

  for _, info in ipairs({ comment() }) do
    local cause = tostring(info.value):match("^dropped.*: ([%w-]+)$")
    if cause then
      local loss = CONGESTION[cause] and "congestion" or "transmission"
      branch():add(fields.dropped, cause):set_generated()
      branch():add(fields.loss, loss):set_generated()
      column[#column + 1] = "LOST: " .. cause
    end
  end

  if #column > 0 then pinfo.cols.info:append(" [" .. table.concat(column, ", ") .. "]") end
end

register_postdissector(whimbrel)
