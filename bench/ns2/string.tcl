# An endless transfer over a string of nodes 200 m apart: 802.11 at 2 Mbit/s, always with RTS, AODV. Each node hears one neighbour on
# either side, and senses two.
# Use: ns string.tcl [NAME VALUE]...   Prints the user data that arrives between `from` and `seconds`, without repetitions, in Mbit/s.
array set set_ { seed 1 seconds 110 from 10 hops 2 rwnd 65536 trace "" }
foreach {name value} $argv {
    if {![info exists set_($name)]} {
        puts stderr "string.tcl: there is no \"$name\"; known: [lsort [array names set_]]"
        exit 2
    }
    set set_($name) $value
}
ns-random $set_(seed)
set nodes [expr {$set_(hops) + 1}]

Mac/802_11 set dataRate_ 2Mb
Mac/802_11 set basicRate_ 1Mb
Mac/802_11 set RTSThreshold_ 0

Trace set show_sctphdr_ 1
set ns [new Simulator]
# "r" is an arrival at the last node, D a chunk of data, column 20 its TSN.
set filter {$1 == "r" && $3 == node && $19 == "D" && !($20 in seen) { seen[$20]; if ($2 >= from) n++ }
    END { printf "%.6f\n", n * 1452 * 8 / (seconds - from) / 1e6 }}
if {$set_(trace) eq ""} {
    set arguments "-v seconds=$set_(seconds) -v from=$set_(from) -v node=_$set_(hops)_"
    set file [open "| awk $arguments {$filter} >@stdout" w]
} else {
    set file [open $set_(trace) w]
}
$ns trace-all $file
set area [new Topography]
$area load_flatgrid 3000 500
create-god $nodes
set channel [new Channel/WirelessChannel]
$ns node-config -adhocRouting AODV -llType LL -macType Mac/802_11 -ifqType Queue/DropTail/PriQueue -ifqLen 50 \
    -antType Antenna/OmniAntenna -propType Propagation/TwoRayGround -phyType Phy/WirelessPhy -topoInstance $area \
    -agentTrace ON -routerTrace OFF -macTrace OFF -movementTrace OFF -channel $channel
for {set i 0} {$i < $nodes} {incr i} {
    set node($i) [$ns node]
    $node($i) random-motion 0
    $node($i) set X_ [expr {10 + 200 * $i}]
    $node($i) set Y_ 100
    $node($i) set Z_ 0
}
set sender [new Agent/SCTP]
set receiver [new Agent/SCTP]
foreach agent [list $sender $receiver] {
    # AODV adds the 20 bytes of an IP header, and SCTP would as well: 1500 bytes on the air.
    $agent set ipHeaderSize_ 0
    $agent set mtu_ 1480
    $agent set dataChunkSize_ 1468
    $agent set numOutStreams_ 1
    $agent set initialRwnd_ $set_(rwnd)
}
$ns attach-agent $node(0) $sender
$ns attach-agent $node($set_(hops)) $receiver
$ns connect $sender $receiver
set ftp [new Application/FTP]
$ftp attach-agent $sender
$ns at 1.0 "$ftp start"
$ns at $set_(seconds) "$ns flush-trace; close $file; exit 0"
$ns run
