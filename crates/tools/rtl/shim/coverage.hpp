// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// Units that count statements and toggles (rtl/flow/coverage.py). A dropped unit is reused for the next of its kind, so its counts
// accumulate. At exit each unit writes a file into the folder SELVEDGE_RTL_COVERAGE.
#pragma once
#include <map>
#include <mutex>
#include <string>

#include "unit.hpp"
#include "verilated_cov.h"

struct Counting {
    std::mutex lock;
    std::multimap<unsigned, Unit *> dropped;
    std::map<Unit *, unsigned> kinds;

    Unit *make(unsigned kind) {
        std::lock_guard held(lock);
        if (auto found = dropped.find(kind); found != dropped.end()) {
            Unit *unit = found->second;
            dropped.erase(found);
            unit->reset();
            return unit;
        }
        Unit *unit = selvedge_rtl_make(kind);
        if (unit) kinds.emplace(unit, kind);
        return unit;
    }
    void drop(Unit *unit) {
        std::lock_guard held(lock);
        dropped.emplace(kinds.at(unit), unit);
    }
    ~Counting() {
        const char *folder = std::getenv("SELVEDGE_RTL_COVERAGE");
        size_t number = 0;
        for (auto [unit, kind] : kinds) {
            std::string name = std::to_string(kind) + "." + std::to_string(number++) + ".dat";
            if (folder) unit->counts().coveragep()->write((std::string(folder) + "/" + name).c_str());
        }
    }
};

static Counting counting;
inline Unit *make_unit(unsigned kind) { return counting.make(kind); }
inline void drop_unit(Unit *unit) { counting.drop(unit); }
