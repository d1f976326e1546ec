# Endless transfers over a chain of links, all from its first node to its last; packets of data are lost on the first link, independently.
# SCTP stalls about message 65536 of a stream (stream sequence numbers are compared without their wrap): `streams` spreads them.
# Use: ns chain.tcl [NAME VALUE]...   Prints the user data that arrives at the last node between `from` and `seconds`, without
# repetitions, in Mbit/s, for all flows together.
# `kind` is sctp, newreno or sack; `sink` has TCP acknowledge every segment (0) or every second one (1). Queues are DropTail or RED with
# thresholds `min` and `max`.
array set set_ {
    seed 1 seconds 310 from 10 kind sctp flows 1 hops 1 rate 2Mb delay 20ms loss 0 queue DropTail packets 50 min 10 max 30 wait true
    rwnd 65536 minrto 1 sack 1 burst 1 sink 0 window 44 streams 1 gap 0.1 trace ""
}
foreach {name value} $argv {
    if {![info exists set_($name)]} {
        puts stderr "chain.tcl: there is no \"$name\"; known: [lsort [array names set_]]"
        exit 2
    }
    set set_($name) $value
}
ns-random $set_(seed)

Queue/RED set thresh_ $set_(min)
Queue/RED set maxthresh_ $set_(max)
Queue/RED set q_weight_ 0.002
Queue/RED set linterm_ 10
Queue/RED set mean_pktsize_ 1500
Queue/RED set bytes_ false
Queue/RED set queue_in_bytes_ false
Queue/RED set gentle_ false
Queue/RED set wait_ $set_(wait)

Trace set show_sctphdr_ 1
set ns [new Simulator]
for {set i 0} {$i <= $set_(hops)} {incr i} { set node($i) [$ns node] }
for {set i 0} {$i < $set_(hops)} {incr i} {
    set next [expr {$i + 1}]
    $ns simplex-link $node($i) $node($next) $set_(rate) $set_(delay) $set_(queue)
    $ns simplex-link $node($next) $node($i) $set_(rate) $set_(delay) DropTail
    $ns queue-limit $node($i) $node($next) $set_(packets)
    $ns queue-limit $node($next) $node($i) $set_(packets)
}
if {$set_(loss) > 0} {
    set random [new RandomVariable/Uniform]
    set stream [new RNG]
    $stream seed [expr {7919 * $set_(seed)}]
    for {set i 0} {$i < 20} {incr i} { $stream uniform 0 1 }
    $random use-rng $stream
    set errors [new ErrorModel]
    $errors unit pkt
    $errors set rate_ $set_(loss)
    $errors ranvar $random
    $errors drop-target [new Agent/Null]
    $ns link-lossmodel $errors $node(0) $node(1)
}

# Flow i begins after i times `gap`.
for {set i 0} {$i < $set_(flows)} {incr i} {
    if {$set_(kind) eq "sctp"} {
        set sender [new Agent/SCTP]
        set receiver [new Agent/SCTP]
        foreach agent [list $sender $receiver] {
            $agent set mtu_ 1500
            $agent set dataChunkSize_ 1468
            $agent set numOutStreams_ $set_(streams)
            $agent set initialRwnd_ $set_(rwnd)
            $agent set minRto_ $set_(minrto)
            $agent set useDelayedSacks_ $set_(sack)
            $agent set useMaxBurst_ $set_(burst)
        }
    } else {
        set kind [expr {$set_(kind) eq "sack" ? "Sack1" : "Newreno"}]
        set sink [expr {$set_(kind) eq "sack" ? "TCPSink/Sack1" : "TCPSink"}]
        set sender [new Agent/TCP/$kind]
        set receiver [new Agent/$sink[expr {$set_(sink) ? "/DelAck" : ""}]]
        if {$set_(sink)} { $receiver set interval_ 200ms }
        # Segments of 1460 bytes in packets of 1500.
        $sender set packetSize_ 1460
        $sender set window_ $set_(window)
        $sender set windowInit_ 2
        $sender set tcpTick_ 0.001
        $sender set minrto_ $set_(minrto)
        $sender set maxrto_ 60
        $sender set rtxcur_init_ 1.0
    }
    $sender set fid_ $i
    $ns attach-agent $node(0) $sender
    $ns attach-agent $node($set_(hops)) $receiver
    $ns connect $sender $receiver
    set ftp [new Application/FTP]
    $ftp attach-agent $sender
    $ns at [expr {$i * $set_(gap)}] "$ftp start"
}

# "r" is an arrival; column 8 is the flow. Of SCTP a D is a chunk of data and column 12 its TSN, of TCP column 11 is the number.
if {$set_(kind) eq "sctp"} {
    set what {$7 ~ /D$/}
    set number {$12}
    set bytes 1452
} else {
    set what {$5 == "tcp" && $6 > 40}
    set number {$11}
    set bytes 1460
}
set filter "\$1 == \"r\" && $what && !((\$8, $number) in seen) { seen\[\$8, $number\]; if (\$2 >= from) n++ }
    END { printf \"%.6f\\n\", n * $bytes * 8 / (seconds - from) / 1e6 }"
if {$set_(trace) eq ""} {
    set file [open "| awk -v seconds=$set_(seconds) -v from=$set_(from) {$filter} >@stdout" w]
} else {
    set file [open $set_(trace) w]
}
$ns trace-queue $node([expr {$set_(hops) - 1}]) $node($set_(hops)) $file
if {$set_(trace) ne ""} {
    $ns trace-queue $node(0) $node(1) $file
    $ns trace-queue $node(1) $node(0) $file
}
$ns at $set_(seconds) "$ns flush-trace; close $file; exit 0"
$ns run
