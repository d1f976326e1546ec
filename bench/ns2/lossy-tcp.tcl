# One endless TCP connection over the link of lossy-link.tcl: 2 Mbit/s and 20 ms, a drop-tail queue of 50 packets, packets of data
# lost independently with the given probability. Every segment is acknowledged: ns-2 counts acknowledgements as its window grows,
# not what they acknowledge (RFC 3465), so that delayed ones would make it grow half as fast.
# Use: ns lossy-tcp.tcl FLAVOUR LOSS SEED SECONDS TRACE   FLAVOUR: newreno or sack. Writes what arrives to the file TRACE.
lassign $argv flavour loss seed seconds trace
ns-random $seed

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

if {$flavour == "sack"} {
    set sender [new Agent/TCP/Sack1]
    set receiver [new Agent/TCPSink/Sack1]
} else {
    set sender [new Agent/TCP/Newreno]
    set receiver [new Agent/TCPSink]
}
# Segments of 1460 bytes in packets of 1500, a receive window of 44 of them.
$sender set packetSize_ 1460
$sender set window_ 44
$sender set windowInit_ 2
$sender set tcpTick_ 0.001
$sender set minrto_ 1.0
$sender set maxrto_ 60
$sender set rtxcur_init_ 1.0
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
