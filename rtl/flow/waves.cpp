// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Runs a netlist with recorded commands, and writes the waves of its sources (waves.py): for each source a bit for each cycle.
//
//   bench PORTS OUT CYCLES SKIP at-once|timed|idle
//
// at-once: each command is offered as soon as the last is accepted; timed: in the cycle in which it was recorded, like the other
// ports; idle: SKIP commands at once, then none. The window begins after SKIP commands and ends after CYCLES or, except for idle,
// with the last command. Each answer must equal the recorded one. Prints a summary as JSON.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "Vbench.h"
#include "unit.hpp"
#include "width.h"

enum { COMMAND = 1, ANSWER = 2, OUTSIDE = 3 };

struct Event {
    uint64_t cycle;
    const uint32_t *words;
};

static void fail(const std::string &text) {
    std::fprintf(stderr, "%s\n", text.c_str());
    std::exit(1);
}

static std::vector<uint32_t> read(const char *path) {
    std::vector<uint32_t> words;
    FILE *file = std::fopen(path, "rb");
    if (!file) fail(std::string(path) + " cannot be read");
    uint32_t word;
    while (std::fread(&word, 4, 1, file) == 1) words.push_back(word);
    std::fclose(file);
    if (words.size() < 4 || words[0] != 0x53525450) fail(std::string(path) + " holds no recorded ports");
    return words;
}

// Cycles without an accepted command after which the run is given up.
static constexpr uint64_t STUCK = 100'000;
// Cycles after the last command before an idle window begins.
static constexpr uint64_t SETTLE = 500;

int main(int count, char **words) {
    if (count != 6) fail("bench PORTS OUT CYCLES SKIP at-once|timed|idle");
    const auto file = read(words[1]);
    const uint64_t cycles = std::strtoull(words[3], nullptr, 10), skip = std::strtoull(words[4], nullptr, 10);
    const std::string mode = words[5];
    std::vector<Event> events[4];
    for (size_t at = 4; at + 2 <= file.size();) {
        const uint32_t kind = file[at];
        if (kind < COMMAND || kind > OUTSIDE) fail("an event of unknown kind");
        events[kind].push_back({file[at + 1], &file[at + 2]});
        at += 2 + file[kind];
    }
    auto &commands = events[COMMAND];
    auto &answers = events[ANSWER];
    auto &outsides = events[OUTSIDE];
    if (mode == "idle" && skip < commands.size()) commands.resize(skip);
    if (skip > commands.size()) fail("there are " + std::to_string(commands.size()) + " commands only");

    VerilatedContext context;
    Vbench top(&context);
    top.clk_i = 0;
    top.command_valid_i = 0;
#ifdef OUTSIDE_I
    if (mode != "timed") {
        for (const Event &one : outsides) {
            if (std::memcmp(one.words, outsides[0].words, 4 * file[OUTSIDE])) fail("the other ports change: the run must be timed");
        }
        if (!outsides.empty()) set_port(top.outside_i, outsides[0].words);
    }
#endif
    top.rst_ni = 1;
    top.eval();
    top.rst_ni = 0;
    top.eval();
    top.clk_i = 1;
    top.eval();
    top.clk_i = 0;
    top.eval();
    top.rst_ni = 1;
    top.eval();

    const size_t bytes = (cycles + 7) / 8;
    std::vector<uint8_t> waves(bytes * SOURCES);
    size_t next = 0, answered = 0, outside = 0, accepted_within = 0;
    uint64_t sampled = 0, last = 0, first = 0;
    bool offered = false, within = false;
    for (uint64_t cycle = 0; sampled < cycles; cycle++) {
        top.clk_i = 1;
        top.eval();
#ifdef OUTSIDE_I
        if (mode == "timed") {
            for (; outside < outsides.size() && outsides[outside].cycle <= cycle; outside++) set_port(top.outside_i, outsides[outside].words);
        }
#endif
        if (!offered && next < commands.size() && (mode != "timed" || commands[next].cycle <= cycle)) {
            set_port(top.command_i, commands[next].words);
            offered = true;
        }
        top.command_valid_i = offered;
        top.eval();
        if (!within && next >= skip && (mode == "idle" ? cycle > last + SETTLE : offered)) {
            within = true;
            first = cycle;
        }
        if (within) {
            for (size_t at = 0; at < SOURCES; at++) {
                if (top.sources_o.m_storage[at / 32] >> (at % 32) & 1) waves[at * bytes + sampled / 8] |= 1u << (sampled % 8);
            }
            sampled++;
        }
        if (top.answer_valid_o) {
            std::vector<uint32_t> kept;
            keep_port(kept, cycle, top.answer_o);
            if (answered >= answers.size()) fail("more answers than were recorded, in cycle " + std::to_string(cycle));
            if (std::memcmp(&kept[1], answers[answered].words, 4 * file[ANSWER])) {
                fail("answer " + std::to_string(answered) + " is not the recorded one, in cycle " + std::to_string(cycle));
            }
            answered++;
        }
        if (offered && top.command_ready_o) {
            offered = false;
            next++;
            accepted_within += within;
            last = cycle;
        } else if (cycle > last + STUCK) {
            fail("command " + std::to_string(next) + " is never accepted");
        }
        top.clk_i = 0;
        top.eval();
        if (mode != "idle" && next == commands.size()) break;
    }
    if (FILE *out = std::fopen(words[2], "wb")) {
        std::fwrite(waves.data(), 1, waves.size(), out);
        std::fclose(out);
    } else {
        fail(std::string(words[2]) + " cannot be written");
    }
    std::printf("{\"cycles\": %llu, \"commands\": %zu, \"answers_compared\": %zu, \"first_cycle\": %llu, \"bytes\": %zu}\n", (unsigned long long)sampled,
                accepted_within, answered, (unsigned long long)first, bytes);
    top.final();
}
