# One endless SCTP association over two paths to a mobile node (Pan et al. 2010, Figure 13), Table 1's parameters. Path 1 is good and bad in
# turn, exponentially: it loses 1 % when good and everything when bad. Path 2 loses 1 %.
# Use: ns two-paths.tcl [NAME VALUE]...   Prints what arrives at the mobile node, without repetitions, in bytes of data from 0 to `seconds`.
# Four streams, where the paper has one: ns-2 compares stream sequence numbers without their wrap, and may stall about message 65536.
# With `agent` SCTP/CMT both paths carry new data (Iyengar et al.), lost data goes where cwnd is largest, and `pf` is CMT-PF.
# Only losses towards the mobile node, unless `both` is 1: the bad state then silences path 1 in both directions.
array set set_ {
    seed 1 seconds 400 primary 1 change 0 rtx 1 good 8.5 bad 1.5 loss 0.01 loss2 -1 both 0
    access 1ms rate1 5Mb rate2 5Mb wire 10Mb delay 20ms last 2ms queue 50 burst 1 sack 1 rwnd 65536 trigger 3 streams 4 unordered 0 trace "" agent SCTP pf 0
}
foreach {name value} $argv {
    if {![info exists set_($name)]} {
        puts stderr "two-paths.tcl: there is no \"$name\"; known: [lsort [array names set_]]"
        exit 2
    }
    set set_($name) $value
}
if {$set_(loss2) < 0} { set set_(loss2) $set_(loss) }
ns-random $set_(seed)

Trace set show_sctphdr_ 1
set ns [new Simulator]
set sender [new Agent/$set_(agent)]
set receiver [new Agent/$set_(agent)]
foreach agent [list $sender $receiver] {
    $agent set pathMaxRetrans_ 5
    $agent set heartbeatInterval_ 30
    $agent set initialSsthresh_ 65536
    $agent set initialCwnd_ 2
    $agent set initialRwnd_ $set_(rwnd)
    $agent set mtu_ 1500
    $agent set dataChunkSize_ 1468
    $agent set numOutStreams_ $set_(streams)
    $agent set unordered_ $set_(unordered)
    $agent set rtxToAlt_ $set_(rtx)
    $agent set useDelayedSacks_ $set_(sack)
    $agent set useMaxBurst_ $set_(burst)
    $agent set fastRtxTrigger_ $set_(trigger)
    if {$set_(agent) eq "SCTP/CMT"} { $agent set useCmtPF_ $set_(pf) }
}

# The first numbers of generators with similar seeds are alike.
proc generator {n} {
    global set_
    set it [new RNG]
    $it seed [expr {7919 * (8 * $set_(seed) + $n)}]
    for {set i 0} {$i < 20} {incr i} { $it uniform 0 1 }
    return $it
}

# An end with two addresses is three nodes in ns-2.
set corr [$ns node]
set mobile [$ns node]
foreach path {1 2} {
    set near($path) [$ns node]
    set far($path) [$ns node]
    $ns multihome-add-interface $corr $near($path)
    $ns multihome-add-interface $mobile $far($path)
    set r [$ns node]
    set ap [$ns node]
    $ns duplex-link $near($path) $r 100Mb $set_(access) DropTail
    $ns duplex-link $r $ap $set_(wire) $set_(delay) DropTail
    $ns duplex-link $ap $far($path) $set_(rate$path) $set_(last) DropTail
    foreach {from to} [list $r $ap $ap $far($path) $far($path) $ap] { $ns queue-limit $from $to $set_(queue) }
    foreach way {forward backward} {
        set errors($path,$way) [new ErrorModel]
        set random [new RandomVariable/Uniform]
        set stream [generator [expr {$path * 2 + ($way eq "forward")}]]
        $random use-rng $stream
        $errors($path,$way) unit pkt
        $errors($path,$way) ranvar $random
        $errors($path,$way) drop-target [new Agent/Null]
        $errors($path,$way) set rate_ 0
    }
    $ns link-lossmodel $errors($path,forward) $ap $far($path)
    $ns link-lossmodel $errors($path,backward) $far($path) $ap
    set last($path) [list $ap $far($path)]
}
$errors(1,forward) set rate_ $set_(loss)
$errors(2,forward) set rate_ $set_(loss2)
$ns multihome-attach-agent $corr $sender
$ns multihome-attach-agent $mobile $receiver
$ns connect $sender $receiver

set times [generator 7]
proc good {} {
    global ns times set_ errors
    $errors(1,forward) set rate_ $set_(loss)
    $errors(1,backward) set rate_ 0
    $ns at [expr {[$ns now] + [$times exponential $set_(good)]}] bad
}
proc bad {} {
    global ns times set_ errors
    $errors(1,forward) set rate_ 1
    if {$set_(both)} { $errors(1,backward) set rate_ 1 }
    $ns at [expr {[$ns now] + [$times exponential $set_(bad)]}] good
}
if {$set_(bad) > 0} { good }

$sender set-primary-destination $far($set_(primary))
if {$set_(change) > 0} { $ns at $set_(change) "$sender set-primary-destination $far([expr {3 - $set_(primary)}])" }
set ftp [new Application/FTP]
$ftp attach-agent $sender
$ns at 0.0 "$ftp start"

# Column 12 of a line about SCTP is the TSN; "r" is an arrival, D a chunk of data.
set filter {$1 == "r" && $7 ~ /D$/ && !($12 in seen) { seen[$12]; path[$3]++; bytes += 1468 - 16; n++ }
    END { printf "%d bytes, %.1f kB/s, path 1 %.2f\n", bytes, bytes / seconds / 1000, path[first] / n }}
if {$set_(trace) eq ""} {
    set file [open "| awk -v seconds=$set_(seconds) -v first=[[lindex $last(1) 0] id] {$filter} >@stdout" w]
} else {
    set file [open $set_(trace) w]
}
foreach path {1 2} { $ns trace-queue {*}$last($path) $file }
$ns at $set_(seconds) "$ns flush-trace; close $file; exit 0"
$ns run
