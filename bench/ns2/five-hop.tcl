# The five-hop job for ns-2: a chain of five 2 Mbit/s links of 0.01 ms with queues of 100 packets, one endless
# SCTP association, DATA chunks of 1468 bytes in packets of 1500, delayed SACKs, a window of 65536 bytes.
# Use: ns five-hop.tcl ?SECONDS? ?QUEUE? ?count?   QUEUE is DropTail or RED, of thresholds 10 and 30.
# With `count` it counts the packets at every queue, which takes time of its own, and prints one line: goodput in Mbit/s,
# packet-hops, simulated seconds. Without, it prints nothing and is the yardstick for speed.
set seconds [expr {$argc > 0 ? [lindex $argv 0] : 3600}]
set queue [expr {$argc > 1 ? [lindex $argv 1] : "DropTail"}]
set count [expr {$argc > 2}]

Queue/RED set thresh_ 10
Queue/RED set maxthresh_ 30
Queue/RED set q_weight_ 0.002
Queue/RED set linterm_ 10
Queue/RED set bytes_ false
Queue/RED set queue_in_bytes_ false
Queue/RED set gentle_ false

Trace set show_sctphdr_ 0
set ns [new Simulator]
set hops 5
for {set i 0} {$i <= $hops} {incr i} { set node($i) [$ns node] }
for {set i 0} {$i < $hops} {incr i} {
    $ns duplex-link $node($i) $node([expr {$i + 1}]) 2Mb 0.01ms $queue
    $ns queue-limit $node($i) $node([expr {$i + 1}]) 100
    $ns queue-limit $node([expr {$i + 1}]) $node($i) 100
}

set sender [new Agent/SCTP]
$sender set mtu_ 1500
$sender set dataChunkSize_ 1468
$sender set numOutStreams_ 1
$sender set initialRwnd_ 65536
$sender set useDelayedSacks_ 1
set receiver [new Agent/SCTP]
$receiver set mtu_ 1500
$receiver set initialRwnd_ 65536
$receiver set useDelayedSacks_ 1
$ns attach-agent $node(0) $sender
$ns attach-agent $node($hops) $receiver
$ns connect $sender $receiver
set ftp [new Application/FTP]
$ftp attach-agent $sender

# What the last link delivers is the goodput: nothing is lost on the way. Counts packets at every queue for packet-hops.
for {set i 0} {$count && $i < $hops} {incr i} {
    set forward($i) [$ns monitor-queue $node($i) $node([expr {$i + 1}]) ""]
    set back($i) [$ns monitor-queue $node([expr {$i + 1}]) $node($i) ""]
}
proc finish {} {
    global hops forward back seconds count
    if {!$count} { exit 0 }
    set hop_count 0
    for {set i 0} {$i < $hops} {incr i} {
        set hop_count [expr {$hop_count + [$forward($i) set pdepartures_] + [$back($i) set pdepartures_]}]
    }
    set packets [$forward([expr {$hops - 1}]) set pdepartures_]
    set goodput [expr {$packets * 1452 * 8.0 / $seconds / 1e6}]
    puts "goodput_mbps $goodput packet_hops $hop_count seconds $seconds"
    exit 0
}
$ns at 0.0 "$ftp start"
$ns at $seconds finish
$ns run
