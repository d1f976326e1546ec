# One endless SCTP association over one link of 2 Mbit/s and 20 ms with a drop-tail queue of 50 packets, whose forward
# direction loses packets independently with the given probability. RFC 2960: four missing reports, initial cwnd 2 MTU.
# Use: ns lossy-link.tcl LOSS SEED SECONDS TRACE   Writes what arrives at the receiver to the file TRACE.
lassign $argv loss seed seconds trace
ns-random $seed

Trace set show_sctphdr_ 1
set ns [new Simulator]
set a [$ns node]
set b [$ns node]
$ns duplex-link $a $b 2Mb 20ms DropTail
$ns queue-limit $a $b 50
$ns queue-limit $b $a 50
if {$loss > 0} {
    set random [new RandomVariable/Uniform]
    set stream [new RNG]
    $stream seed $seed
    $random use-rng $stream
    set errors [new ErrorModel]
    $errors unit pkt
    $errors set rate_ $loss
    $errors ranvar $random
    $errors drop-target [new Agent/Null]
    $ns link-lossmodel $errors $a $b
}

set sender [new Agent/SCTP]
set receiver [new Agent/SCTP]
foreach agent [list $sender $receiver] {
    $agent set mtu_ 1500
    $agent set dataChunkSize_ 1468
    $agent set numOutStreams_ 1
    $agent set initialRwnd_ 65536
    $agent set useDelayedSacks_ 1
}
$ns attach-agent $a $sender
$ns attach-agent $b $receiver
$ns connect $sender $receiver
set ftp [new Application/FTP]
$ftp attach-agent $sender
set file [open $trace w]
$ns trace-queue $a $b $file
$ns at 0.0 "$ftp start"
$ns at $seconds "close $file; exit 0"
$ns run
