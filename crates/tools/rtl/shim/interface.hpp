// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The C functions that src/unit.rs calls. They return pointers into the unit, valid until its next run.
#pragma once
#include "unit.hpp"

#if VM_COVERAGE
#include "coverage.hpp"
#else
inline Unit *make_unit(unsigned kind) { return selvedge_rtl_make(kind); }
inline void drop_unit(Unit *unit) { delete unit; }
#endif

double sc_time_stamp() { return 0; }

// Outputs of the last run: `count` 32-bit words, in records of `record` words (the cycle first).
struct Kept {
    const uint32_t *words;
    size_t count, record;
};

extern "C" {
Unit *selvedge_rtl_new(unsigned kind) { return make_unit(kind); }
void selvedge_rtl_drop(Unit *unit) { drop_unit(unit); }
void selvedge_rtl_reset(Unit *unit) { unit->reset(); }
uint64_t selvedge_rtl_cycle(const Unit *unit) { return unit->cycle; }
size_t selvedge_rtl_command_words(const Unit *unit) { return unit->command_words; }
size_t selvedge_rtl_answer_words(const Unit *unit) { return unit->answer_words; }
size_t selvedge_rtl_outside_words(const Unit *unit) { return unit->outside_in_words; }
void selvedge_rtl_set_outside(Unit *unit, const uint32_t *words) { unit->set_outside(words); }
size_t selvedge_rtl_run(Unit *unit, const uint32_t *commands, size_t count, uint64_t cycles) {
    return unit->run(commands, count, cycles);
}
// 0: cycles in which commands were accepted; 1: answers; 2: trace; 3: outside_o.
Kept selvedge_rtl_kept(const Unit *unit, unsigned what) {
    switch (what) {
    case 0: return {unit->accepted.data(), unit->accepted.size(), 1};
    case 1: return {unit->answers.data(), unit->answers.size(), 1 + unit->answer_words};
    case 2: return {unit->traces.data(), unit->traces.size(), 1 + unit->trace_words};
    default: return {unit->outsides.data(), unit->outsides.size(), 1 + unit->outside_out_words};
    }
}
}
