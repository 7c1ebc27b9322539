# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The module `selvedge`: results, machines, studies and errors, against a built tree. No test depends on time."""
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

import selvedge
from selvedge import _command, _toml

SHORT = {"skip": "1us", "measured": "2us", "seed": 3}


def ends(pid):
    """Whether a process ends within half a minute. It may still wait for its parent to take notice."""
    for _ in range(300):
        try:
            state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.1)
    return False


class Programs(unittest.TestCase):
    def test_a_builtin_program_has_a_column_for_each_series(self):
        result = selvedge.simulate("extoll-ht400", "ping-pong", ranks=2, sizes=[0, 64])
        self.assertEqual(result.columns["bytes"], [0, 64])
        short, long = result.columns["half round trip, us"]
        self.assertLess(short, long)
        self.assertEqual(result.frame.index.name, "bytes")
        self.assertEqual(result.frame["half round trip, us"].loc[64], long)
        self.assertEqual(result.frame.attrs["units"], {"half round trip, us": "us"})
        self.assertEqual((result.end, result.exit_code, result.json["ranks"]), ("completed", 0, 2))
        self.assertGreater(result.messages["delivered"], 0)
        self.assertGreater(result.network["packet_hops"], 0)
        self.assertEqual(result.machine["name"], "extoll-ht400")

    def test_series_are_joined_by_x(self):
        series = [{"name": "a", "points": [[8, 1.0], [0, 2.0]]}, {"name": "b", "points": [[8, 3.0]]}]
        result = selvedge.Result({"machine": {"name": "m"}, "schema": "s", "results": {"x": "bytes", "series": series}})
        self.assertEqual(result.columns, {"bytes": [0, 8], "a": [2.0, 1.0], "b": [None, 3.0]})

    def test_equal_arguments_are_equal_runs_and_the_seed_counts(self):
        runs = [selvedge.simulate("torus16", "uniform", ranks=16, parameters={"messages": 4}, variation=5, seed=seed) for seed in (1, 1, 2)]
        self.assertEqual(runs[0].hash, runs[1].hash)
        self.assertNotEqual(runs[0].hash, runs[2].hash)

    def test_a_real_program_prints(self):
        result = selvedge.simulate("pac", ["/bin/echo", "one", 2], ranks=2)
        self.assertEqual(result.output, "one 2\none 2\n")
        self.assertEqual(result.columns, {})
        with self.assertRaisesRegex(selvedge.SelvedgeError, "no results to plot"):
            result.plot()
        self.assertEqual(selvedge.simulate("pac", pathlib.Path("/bin/true")).exit_code, 0)
        self.assertEqual(selvedge.simulate("pac", "/bin/true").exit_code, 0)

    def test_traffic_has_a_row_for_each_load(self):
        result = selvedge.simulate("torus16", traffic="uniform", load=[0.1, 0.3], **SHORT)
        self.assertEqual(result.columns["load"], [0.1, 0.3])
        self.assertIn("whole_run.lost.link-down", result.columns)
        self.assertEqual(result.frame.attrs["units"]["latency.mean_ns"], "ns")
        self.assertEqual(result.plot().get_ylabel(), "latency.mean, ns")

    def test_faults_reach_the_command(self):
        links = ["0-1@1us", "1-2@1us"]
        result = selvedge.simulate("torus16", traffic="uniform", load=0.2, fail_link=links, **SHORT)
        self.assertEqual(result.columns["whole_run.link_changes"], [4])  # both directions
        lossy = selvedge.simulate("torus16", traffic="uniform", load=0.2, loss=0.5, **SHORT)
        self.assertGreater(lossy.columns["whole_run.lost.loss"][0], 0)
        killed = selvedge.simulate("torus16", "ping-pong", ranks=2, kill="1@1us", check=False)
        self.assertEqual((killed.end, killed.exit_code), ("died", 137))

    def test_jobs_have_records(self):
        result = selvedge.simulate("torus16", "barrier", ranks=4, job=["other: program=barrier ranks=4"], alone="none")
        self.assertEqual([job["name"] for job in result.jobs], ["barrier", "other"])

    def test_a_plot_has_the_columns_of_one_unit(self):
        result = selvedge.simulate("qdr-portals", "counting", ranks=2, sizes=[0, 8, 1024])
        axes = result.plot()
        self.assertEqual((len(axes.lines), axes.get_ylabel(), axes.get_xscale()), (2, "us", "symlog"))
        self.assertEqual(list(axes.lines[0].get_xdata()), [0, 8, 1024])
        self.assertEqual(result.plot("flag over counting, ratio").get_ylabel(), "flag over counting, ratio")
        with self.assertRaisesRegex(selvedge.SelvedgeError, "no column 'latency'; there are half round trip"):
            result.plot("latency")

    def test_lists(self):
        self.assertIn("torus16", [machine["name"] for machine in selvedge.machines()])
        program = {program["name"]: program for program in selvedge.programs()}["ping-pong"]
        self.assertIn("sizes", [parameter["name"] for parameter in program["parameters"]])
        self.assertIn("uniform", [pattern["name"] for pattern in selvedge.patterns()])


class Machines(unittest.TestCase):
    def test_keys_are_read(self):
        machine = selvedge.Machine("dragonfly1056")
        self.assertEqual((machine.topology.groups, machine["link.virtual_channels"], machine.nodes), (33, 3, 1056))
        self.assertIsInstance(machine.topology.groups, int)
        self.assertIn("Kim", machine.source("topology.groups"))
        self.assertEqual(selvedge.Machine("torus16").topology.dimensions, [16, 16])
        self.assertEqual(selvedge.Machine("extoll-ht400").link.retransmission.window_flits, 64)
        self.assertIn("routing.algorithm", machine)
        self.assertIn("groups", dir(machine.topology))
        self.assertIn("topology", dir(machine))

    def test_a_change_reaches_the_run(self):
        machine = selvedge.Machine("torus16")
        before = selvedge.simulate(machine, "ping-pong", ranks=2, sizes=8).columns["half round trip, us"][0]
        machine.link.latency_ns = {"value": 1065, "source": "longer cables"}
        self.assertEqual((machine.link.latency_ns, machine.source("link.latency_ns")), (1065, "longer cables"))
        after = selvedge.simulate(machine, "ping-pong", ranks=2, sizes=8).columns["half round trip, us"][0]
        self.assertAlmostEqual((after - before) % 1, 0, places=6)  # a microsecond for each link
        self.assertGreater(after, before)

    def test_a_copy_changes_by_itself(self):
        machine = selvedge.Machine("dragonfly1056", {"routing.algorithm": "valiant"})
        other = machine.copy()
        other["routing.algorithm"] = "minimal"
        self.assertEqual((machine.routing.algorithm, other.routing.algorithm), ("valiant", "minimal"))

    def test_keys_that_fit_only_together_change_together(self):
        machine = selvedge.Machine("torus16")
        with self.assertRaises(selvedge.SelvedgeError):
            machine["routing.algorithm"] = "west-first"
        self.assertEqual((machine.routing.algorithm, machine.changes), ("dimension-order", {}))
        machine.update({"topology.kind": "mesh", "topology.dimensions": [4, 4], "routing.algorithm": "west-first"})
        self.assertEqual(machine.nodes, 16)

    def test_unknown_keys_are_refused_in_the_commands_words(self):
        machine = selvedge.Machine("torus16")
        for change in (lambda: machine.__setitem__("routing.foo", 1), lambda: machine["routing.foo"]):
            with self.assertRaisesRegex(selvedge.UnknownKey, "unknown field `foo`, expected one of `algorithm`") as caught:
                change()
            self.assertEqual(caught.exception.status, 2)
        with self.assertRaisesRegex(KeyError, "`foo`, expected one of .*`topology`"):
            machine["foo"]
        with self.assertRaisesRegex(AttributeError, "belongs to dragonfly"):
            machine.topology.groups
        self.assertFalse(hasattr(machine, "foo"))
        with self.assertRaisesRegex(selvedge.SelvedgeError, "in sections"):
            machine.latency = 1
        self.assertEqual(machine.changes, {})

    def test_keys_of_defaults_are_none(self):
        machine = selvedge.Machine("torus16")
        self.assertIsNone(machine["switch.speed_up"])
        machine.switch.speed_up = 2
        self.assertEqual(machine.switch.speed_up, 2)
        self.assertIsNone(machine.congestion.control)

    def test_a_machine_may_be_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "mine.toml"
            text = (selvedge.prefix() / "share/selvedge/machines/torus16.toml").read_text()
            file.write_text(text.replace('name = "torus16"', 'name = "mine"'))
            self.assertEqual(selvedge.Machine(file).name, "mine")
            result = selvedge.simulate(file, "barrier", ranks=4)
        self.assertEqual(result.machine["name"], "mine")


class Studies(unittest.TestCase):
    SCENARIO = {
        "run": {"machine": selvedge.Machine._unchecked("torus16"), **SHORT},
        "case": [{"name": "near"}, {"name": "far", "set": {"link": {"latency_ns": 1000}}}],
        "sweep": {"traffic": ["uniform"], "load": [0.1, 0.2]},
    }

    def test_a_dict_is_a_scenario(self):
        machine = selvedge.Machine("torus16", {"switch.latency_ns": 10, "routing.algorithm": "dimension-order"})
        with tempfile.TemporaryDirectory() as folder:
            run = {**self.SCENARIO["run"], "machine": machine}
            table = selvedge.study({**self.SCENARIO, "run": run}, folder=folder, jobs=1)
            text = (pathlib.Path(folder) / "scenario.toml").read_text()
        self.assertIn('set.switch.latency_ns = 10, set.routing.algorithm = "dimension-order"', text)
        self.assertEqual(list(table.frame["case"]), ["near", "near", "far", "far"])
        self.assertEqual(list(table.frame["load"]), [0.1, 0.2, 0.1, 0.2])
        latency = table.frame.groupby("case")["latency.mean_ns"].mean()
        self.assertGreater(latency["far"], latency["near"] + 900)
        self.assertEqual((table.failed, table.missing), ([], 0))
        self.assertEqual(table.frame.attrs["units"]["latency.mean_ns"], "ns")

    def test_finished_cells_are_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            first = selvedge.study(self.SCENARIO, folder=folder, jobs=1)
            cells = {file: file.stat().st_mtime_ns for file in (pathlib.Path(folder) / "cells").glob("*.json")}
            again = selvedge.study(pathlib.Path(folder) / "scenario.toml", folder=folder, jobs=1)
            self.assertEqual(len(cells), 4)
            self.assertEqual(cells, {file: file.stat().st_mtime_ns for file in cells})
        self.assertEqual(first.rows, again.rows)

    def test_failed_cells_are_an_error_with_the_table(self):
        scenario = {"run": {"machine": "pac", "command": ["/bin/sh", "-c", "exit 3"]}, "sweep": {"np": [1]}}
        with self.assertRaisesRegex(selvedge.SelvedgeError, "np") as caught:
            selvedge.study(scenario, jobs=1)
        self.assertEqual((caught.exception.status, len(caught.exception.report["failed"])), (1, 1))
        self.assertEqual(selvedge.study(scenario, jobs=1, check=False).failed[0]["exit_code"], 3)

    def test_a_wrong_scenario_is_refused(self):
        with self.assertRaisesRegex(selvedge.SelvedgeError, "loud") as caught:
            selvedge.study({"run": {"machine": "torus16"}, "sweep": {"loud": [1]}})
        self.assertEqual(caught.exception.status, 2)


class Errors(unittest.TestCase):
    def test_the_commands_words_and_status(self):
        with self.assertRaisesRegex(selvedge.SelvedgeError, "no machine 'nope'; there are atoll") as caught:
            selvedge.simulate("nope", "barrier")
        self.assertEqual((caught.exception.status, caught.exception.report), (2, None))
        with self.assertRaisesRegex(selvedge.SelvedgeError, "--no-such-option"):
            selvedge.simulate("torus16", "barrier", no_such_option=True)

    def test_a_failed_run_has_its_report(self):
        with self.assertRaisesRegex(selvedge.SelvedgeError, "exited with status 3") as caught:
            selvedge.simulate("pac", ["/bin/sh", "-c", "exit 3"])
        self.assertEqual((caught.exception.status, caught.exception.report["exit_code"]), (3, 3))
        self.assertEqual(selvedge.simulate("torus16", "barrier", ranks=4, time_limit="1ns", check=False).exit_code, 124)

    def test_a_timeout_ends_the_command_and_its_ranks(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "pid"
            program = ["/bin/sh", "-c", f"echo $$ > {file}.new && mv {file}.new {file}; while :; do :; done"]
            real = subprocess.Popen.communicate
            waits = []

            def after_the_start(process, timeout=None):
                # The limit passes when the rank runs, however slow this machine is.
                while not waits and not file.exists():
                    pass
                waits.append(timeout)
                return real(process, timeout=timeout)

            with mock.patch.object(subprocess.Popen, "communicate", after_the_start):
                with self.assertRaisesRegex(selvedge.SelvedgeError, "longer than timeout=0.01 s"):
                    selvedge.simulate("pac", program, timeout=0.01)
            self.assertTrue(ends(int(file.read_text())), "the rank still runs")

    @unittest.skipIf((pathlib.Path(selvedge.__file__).parent / "tree").exists(), "the wheel has its own tree")
    def test_the_command_is_looked_for(self):
        tree = selvedge.prefix()
        with mock.patch.dict(os.environ, {"PATH": f"{tree}/bin"}):
            del os.environ["SELVEDGE_PREFIX"]
            self.assertEqual(selvedge.prefix(), tree)
        with mock.patch.dict(os.environ, {"PATH": "/nonexistent"}):
            del os.environ["SELVEDGE_PREFIX"]
            with self.assertRaisesRegex(selvedge.SelvedgeError, "set SELVEDGE_PREFIX"):
                selvedge.machines()
        with mock.patch.dict(os.environ, {"SELVEDGE_PREFIX": "/nonexistent"}), self.assertRaisesRegex(selvedge.SelvedgeError, "no bin/selvedge"):
            selvedge.prefix()

    def test_optional_packages_are_named(self):
        result = selvedge.simulate("torus16", "barrier", ranks=4)
        for package, use in {"pandas": lambda: result.frame, "matplotlib": result.plot}.items():
            with mock.patch.dict(sys.modules, {package: None, "matplotlib.pyplot": None}):
                with self.assertRaisesRegex(selvedge.SelvedgeError, f"needs {package}: pip install {package}"):
                    use()


class Words(unittest.TestCase):
    def test_options(self):
        given = {"no_reroute": True, "loss": None, "load": [0.1, 0.2], "kill": ["1@1us", "2@1us"], "env": {"A": 1}, "seed": 2.0, "quiet": False}
        words = ["--no-reroute", "--load=0.1,0.2", "--kill=1@1us", "--kill=2@1us", "--env=A=1", "--seed=2"]
        self.assertEqual(_command.options(given), words)

    def test_toml(self):
        given = {"a": True, "b.c-d": [1, 2.5], "e": {"f g": 'q"\n'}, "h": pathlib.Path("/x")}
        self.assertEqual(_toml.document(given), 'a = true\nb.c-d = [1, 2.5]\ne = { "f g" = "q\\"\\n" }\nh = "/x"\n')
        with self.assertRaises(TypeError):
            _toml.value(None)

    def test_units(self):
        names = ["latency, us", "mean_ns", "events_per_s", "hops_mean", "accepted_bytes_per_s_per_node"]
        self.assertEqual([_command.split_unit(name)[1] for name in names], ["us", "ns", "1/s", None, "bytes/s/node"])


if __name__ == "__main__":
    unittest.main()
