# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# For OpenSTA 2.0: the longest path of each class of a netlist. timing.py writes these variables:
#
#   liberties, netlist, top, clock, resets   files, names
#   memory_clocks, memory_inputs             pins of memories, as "instance/pin"
#   driver, load_pf                          the cell before each input, the load after each output
#
# It prints, for each class, "class NAME PERIOD", and the path at that period. The period is found by steps, because paths to a latch or a
# gated clock have half of it.

proc longest {class from to} {
    global clock
    set period 10.0
    for {set step 0} {$step < 12} {incr step} {
        create_clock -name clock -period $period [get_ports $clock]
        set_input_delay 0 -clock clock [free_inputs]
        set_output_delay 0 -clock clock [all_outputs]
        set text [path $from $to]
        if {![regexp {(-?[0-9.]+)\s+slack} $text all slack]} { return }
        if {abs($slack) < 0.002} { break }
        set period [expr {$period - $slack}]
        if {$period < 0.01} { return }
    }
    puts "class $class $period"
    puts $text
    puts "end"
}

# OpenSTA evaluates the body in a procedure of its own, so the command is a global variable.
proc path {from to} {
    set ::query "report_checks -path_delay max -format full_clock -digits 4 $from $to"
    with_output_to_variable text { eval $::query }
    return $text
}

# All inputs but the clock and the resets.
proc free_inputs {} {
    global clock resets
    set free {}
    foreach port [all_inputs] {
        if {[lsearch [concat $clock $resets] [get_property $port full_name]] < 0} { lappend free $port }
    }
    return $free
}

foreach file $liberties { read_liberty $file }
read_verilog $netlist
link_design $top
create_clock -name clock -period 10 [get_ports $clock]
foreach reset $resets { set_false_path -from [get_ports $reset] }
if {[llength [free_inputs]]} { set_driving_cell -lib_cell $driver [free_inputs] }
set_load $load_pf [all_outputs]

set registers [all_registers -clock_pins -edge_triggered]
set data [all_registers -data_pins]
set memory_q {}
foreach pin $memory_clocks { lappend memory_q [get_pins $pin] }
set memory_d {}
foreach pin $memory_inputs { foreach one [get_pins $pin] { lappend memory_d $one } }
# The instances of memories, as OpenSTA writes them, and the pins of registers outside memories.
set memories {}
foreach pin $memory_clocks { lappend memories [file dirname [string map {\\[ [ \\] ]} $pin]] }
proc plain {pins} {
    global memories
    set found {}
    foreach pin $pins { if {[lsearch -exact $memories [file dirname [get_property $pin full_name]]] < 0} { lappend found $pin } }
    return $found
}
set plain_q [plain $registers]

longest register_register "-from {$plain_q}" "-to {[plain $data]}"
if {[llength $memory_q]} {
    longest memory_register "-from {$memory_q}" "-to {$data}"
    if {[llength $memory_d]} { longest register_memory "-from {$plain_q}" "-to {$memory_d}" }
}
if {[llength [free_inputs]]} { longest input_register "-from {[free_inputs]}" "-to {$data}" }
longest register_output "-from {$plain_q}" "-to {[all_outputs]}"
if {[llength [free_inputs]]} { longest input_output "-from {[free_inputs]}" "-to {[all_outputs]}" }
exit
