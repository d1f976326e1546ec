# Datagrams, SCTP or TCP between nodes that move, over 802.11 at 2 Mbit/s.
# Use: ns manet.tcl ROUTING MOVEMENT NODES FLOWS SECONDS udp|sctp|tcp:WINDOW:BYTES [TRACE agents|frames]
# TCP is ns-2's Agent/TCP, Tahoe, with a window of WINDOW packets of BYTES bytes of data at most.
# Flow i leads from node i to node i + FLOWS and begins at 1 + i / 5 s. Without TRACE nothing is written.
lassign $argv routing movement nodes flows seconds traffic trace what
set frames [expr {$what eq "frames" ? "ON" : "OFF"}]
set others [expr {$what eq "agents" ? "ON" : "OFF"}]

# DSSS at 2 Mbit/s, answers and broadcasts at 1 Mbit/s, always with RTS: what ns-2 begins with.
Mac/802_11 set dataRate_ 2Mb
Mac/802_11 set basicRate_ 1Mb
Mac/802_11 set RTSThreshold_ 0

set ns [new Simulator]
set file [open [expr {$trace eq "" ? "/dev/null" : $trace}] w]
# An animation or energy lines are of no use here; the trace is switched off below where no one reads it.
$ns trace-all $file
set area [new Topography]
$area load_flatgrid 1500 1500
create-god $nodes
set channel [new Channel/WirelessChannel]
$ns node-config -adhocRouting $routing -llType LL -macType Mac/802_11 -ifqType Queue/DropTail/PriQueue -ifqLen 50 \
    -antType Antenna/OmniAntenna -propType Propagation/TwoRayGround -phyType Phy/WirelessPhy -topoInstance $area \
    -agentTrace $others -routerTrace $others -macTrace $frames -movementTrace OFF -channel $channel
for {set i 0} {$i < $nodes} {incr i} {
    set node_($i) [$ns node]
    $node_($i) random-motion 0
}
set ns_ $ns
source $movement

for {set i 0} {$i < $flows} {incr i} {
    set target $node_([expr {$i + $flows}])
    if {$traffic eq "udp"} {
        set sender [new Agent/UDP]
        set receiver [new Agent/Null]
        set source [new Application/Traffic/CBR]
        $source set packetSize_ 512
        $source set interval_ 0.25
        $source set random_ 0
    } elseif {[string match tcp:* $traffic]} {
        lassign [split $traffic :] _ window bytes
        set sender [new Agent/TCP]
        set receiver [new Agent/TCPSink]
        $sender set window_ $window
        $sender set packetSize_ $bytes
        set source [new Application/FTP]
    } else {
        set sender [new Agent/SCTP]
        set receiver [new Agent/SCTP]
        foreach agent [list $sender $receiver] {
            $agent set mtu_ 1500
            $agent set dataChunkSize_ 1468
            $agent set numOutStreams_ 1
        }
        set source [new Application/FTP]
    }
    $ns attach-agent $node_($i) $sender
    $ns attach-agent $target $receiver
    $ns connect $sender $receiver
    $source attach-agent $sender
    $ns at [expr {1 + 0.2 * $i}] "$source start"
}
$ns at $seconds "close $file; exit 0"
$ns run
