// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A unit of the RTL behind one interface, whatever the widths of its ports.
//
// Every unit top has the ports clk_i, rst_ni, command_valid_i, command_ready_o, command_i, answer_valid_o, answer_o, trace_o;
// a unit with other ports also has outside_i, constant during a run, and outside_o. The outputs of a run are kept
// with their cycles, in 32-bit words, until the next run: answers when valid, trace_o and outside_o when not 0.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "verilated.h"

// Words of a port, the lowest bits first.
template <class Port> constexpr size_t words_of = (sizeof(Port) + 3) / 4;

template <class Port> void set_port(Port &port, const uint32_t *from) {
    if constexpr (sizeof(Port) >= 4) {
        std::memcpy(&port, from, sizeof(Port));
    } else {
        port = static_cast<Port>(*from);
    }
}

template <class Port> bool is_zero(const Port &port) {
    if constexpr (sizeof(Port) > 8) {
        EData all = 0;
        for (size_t word = 0; word < words_of<Port>; word++) all |= port.m_storage[word];
        return all == 0;
    } else {
        return port == 0;
    }
}

template <class Port> void keep_port(std::vector<uint32_t> &kept, uint64_t cycle, const Port &port) {
    kept.push_back(static_cast<uint32_t>(cycle));
    size_t at = kept.size();
    kept.resize(at + words_of<Port>);
    if constexpr (sizeof(Port) >= 4) {
        std::memcpy(&kept[at], &port, sizeof(Port));
    } else {
        kept[at] = port;
    }
}

struct Unit {
    uint64_t cycle = 0;
    size_t command_words = 0, answer_words = 0, trace_words = 0, outside_in_words = 0, outside_out_words = 0;
    std::vector<uint32_t> accepted, answers, traces, outsides;

    virtual ~Unit() = default;
    // Offers the commands in order, each as soon as the last is accepted, and runs `cycles` cycles. Returns the number of accepted commands.
    virtual size_t run(const uint32_t *commands, size_t count, uint64_t cycles) = 0;
    virtual void set_outside(const uint32_t *words) = 0;
    virtual void reset() = 0;
    // The coverage counts of Verilator.
    virtual VerilatedContext &counts() = 0;
};

template <class Top> struct Of final : Unit {
    VerilatedContext context;
    std::unique_ptr<Top> top;

    Of() {
        // Registers without a reset start at random; at 0 if ports are recorded (src/ports.rs), as in a netlist that runs the same commands.
        context.randReset(std::getenv("SELVEDGE_RTL_PORTS") ? 0 : 2);
        context.randSeed(1);
        top = std::make_unique<Top>(&context);
        command_words = words_of<std::remove_reference_t<decltype(top->command_i)>>;
        answer_words = words_of<std::remove_reference_t<decltype(top->answer_o)>>;
        trace_words = words_of<std::remove_reference_t<decltype(top->trace_o)>>;
        if constexpr (requires(Top t) { t.outside_i; }) {
            outside_in_words = words_of<std::remove_reference_t<decltype(top->outside_i)>>;
            std::memset(&top->outside_i, 0, sizeof(top->outside_i));
        }
        if constexpr (requires(Top t) { t.outside_o; }) {
            outside_out_words = words_of<std::remove_reference_t<decltype(top->outside_o)>>;
        }
        reset();
    }
    ~Of() override { top->final(); }

    void half(bool clock) {
        top->clk_i = clock;
        top->eval();
    }

    // Leaves the unit in the low half of a cycle without a command.
    void reset() override {
        top->command_valid_i = 0;
        top->rst_ni = 1;
        half(false);
        top->rst_ni = 0;
        half(true);
        half(false);
        top->rst_ni = 1;
        half(false);
        cycle = 0;
    }

    // The harness registers the inputs: those set before a rising edge reach the unit after it.
    size_t run(const uint32_t *commands, size_t count, uint64_t cycles) override {
        accepted.clear();
        answers.clear();
        traces.clear();
        outsides.clear();
        size_t taken = 0;
        bool offered = false;
        for (uint64_t end = cycle + cycles; cycle != end; cycle++) {
            if (taken < count && !offered) {
                set_port(top->command_i, commands + taken * command_words);
                offered = true;
            }
            top->command_valid_i = offered;
            half(true);
            if (offered && top->command_ready_o) {
                accepted.push_back(static_cast<uint32_t>(cycle));
                taken++;
                offered = false;
            }
            if (top->answer_valid_o) keep_port(answers, cycle, top->answer_o);
            if (!is_zero(top->trace_o)) keep_port(traces, cycle, top->trace_o);
            if constexpr (requires(Top t) { t.outside_o; }) {
                if (!is_zero(top->outside_o)) keep_port(outsides, cycle, top->outside_o);
            }
            half(false);
        }
        top->command_valid_i = 0;
        return taken;
    }

    VerilatedContext &counts() override { return context; }

    void set_outside(const uint32_t *words) override {
        if constexpr (requires(Top t) { t.outside_i; }) {
            set_port(top->outside_i, words);
        }
    }
};
