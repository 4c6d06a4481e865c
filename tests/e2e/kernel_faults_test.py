"""Faults on the path of real kernels in virtual time: whatever is lost, doubled, overtaken, late, damaged or marked, all transfers
complete, results are right, the capture holds, and recovery takes what timers say. Faults follow from the seed and time is virtual,
so that each run is the same again."""

import json
import re
import subprocess

import stage

from kernel_nodes import emulated, head, kernel, ring_job  # noqa: E402  stage says where it is

LINK = {"rate": "100Gbit/s", "latency": "500ns"}
ACTIONS = ("drop", "duplicate", "reorder", "delay", "corrupt", "mark_ce")
DIRECTIONS = ("from_real", "to_real")
PROBABILITIES = (0.02, 0.05)  # of each direction, the other way round with every second action
OPERATIONS = ("write", "send", "read")
FIRST_PORT = 18515
TRAFFIC_CLASS = 106  # ECN-capable: else nobody may mark it
PERFTEST = "ib_{operation}_bw -d rxe0 -x 1 -m 4096 -F -s 65536 -n 12 --tclass=106 -p {port}"


def tests(server=""):
    """perftest's three tests, one after the other."""
    return [PERFTEST.format(operation=operation, port=FIRST_PORT + i) + server for i, operation in enumerate(OPERATIONS)]


class KernelFaults(stage.Stage):
    def ring(self):
        program = "./ring_node --peer-next 10.9.0.2 --peer-prev 10.9.0.4"
        return (kernel("a", program, share=self.build / "tools/rigs/ring_node", **LINK) + emulated("w", count=3, **LINK) +
                ring_job(["a", "w0", "w1", "w2"], ["64KiB", "512KiB"], traffic_class=TRAFFIC_CLASS))

    def service(self):
        text = kernel("a", " && ".join(tests(" 10.9.0.2")), **LINK) + emulated("w", **LINK)
        for i in range(len(OPERATIONS)):
            text += f'[[service]]\nnode = "w"\nport = {FIRST_PORT + i}\ntraffic_class = {TRAFFIC_CLASS}\n'
        return text

    def client(self):
        text = kernel("a", " && ".join(tests()), **LINK) + emulated("w", **LINK)
        for i, operation in enumerate(OPERATIONS):
            text += (f'[[client]]\nnode = "w"\nserver = "a"\nkind = "{operation}_bw"\nport = {FIRST_PORT + i}\niterations = 12\n'
                     f'traffic_class = {TRAFFIC_CLASS}\n')
        return text

    def two_kernels(self):
        clients = [f"sleep 0.3; {test}" for test in tests(" 10.9.0.1")]
        return kernel("a", " && ".join(tests()), **LINK) + kernel("b", " && ".join(clients), **LINK)

    def survives(self, text, action, seed, probabilities):
        """Carries it out with a fault in each direction. Returns what was said, the report, and what each fault did."""
        config, capture, report = (self.folder / name for name in ("faults.toml", "faults.pcapng", "faults.json"))
        for direction, probability in zip(DIRECTIONS, probabilities):
            text += f'[[fault]]\naction = "{action}"\ndirection = "{direction}"\nprobability = {probability}\n'
            if action == "delay":
                text += 'delay = "3us"\n'  # nine packets of 4,096 bytes
        config.write_text(head(seed=seed) + text)
        done = subprocess.run([str(self.understudy), "simulate", str(config), "--capture", str(capture), "--report", str(report)],
                              capture_output=True, text=True, check=False, timeout=300)
        said = done.stdout + done.stderr
        # What is lost or late makes a collective late, which is no fault here.
        self.assertIn(done.returncode, (0, stage.NOT_FAITHFUL), said)
        result = json.loads(report.read_text())
        acted = [fault["acted"] for fault in result["ports"][0]["faults"]]
        self.assertGreater(min(acted), 0, "a fault did nothing: this run shows nothing of it")
        self.assertEqual([kernel["exit_status"] for kernel in result["kernels"]], [0] * len(result["kernels"]), said)
        self.assert_only_damage(capture, action == "corrupt")
        return said, result, acted

    def assert_only_damage(self, capture, damaged):
        """The capture holds, but for wrong checksums where a fault made them."""
        done = subprocess.run([str(self.build / "tools/roce_check/roce-check"), str(capture), "--impaired", "--without-cnps", "10.9.0.1",
                               "--without-cnps", "10.9.0.2"], capture_output=True, text=True, check=False)
        broken = set(re.findall(r"^ *! (\S+) ", done.stdout, re.MULTILINE))
        self.assertLessEqual(broken, {"A2.1"} if damaged else set(), done.stdout)
        self.assertEqual(done.returncode, 1 if broken else 0, done.stdout)

    def each(self, text, check, few):
        """Each action, or those few: between them the tests have all."""
        for number, action in enumerate(ACTIONS):
            if action not in few and not stage.ALL:
                continue
            with self.subTest(action=action):
                probabilities = PROBABILITIES[::1 if number % 2 == 0 else -1]
                said, result, acted = self.survives(text, action, 7 + number, probabilities)
                check(said, result)
                print(f"{self._testMethodName}: {action} from_real {acted[0]}, to_real {acted[1]}", flush=True)

    def assert_tests_done(self, said, result):
        self.assertEqual(len(re.findall(r"^[ab]: +65536 +12 ", said, re.MULTILINE)), self.expected_tables, said)
        self.assertTrue(result["verdict"]["faithful"], said)

    def test_rings_are_right(self):
        def check(said, result):
            self.assertEqual(len(re.findall("Out of bounds values : 0 OK", said)), 1, said)
            self.assert_all_right(result)
        self.each(self.ring(), check, ("drop", "corrupt"))

    def test_a_kernels_perftest_ends(self):
        self.expected_tables = 3
        self.each(self.service(), self.assert_tests_done, ("reorder",))

    def test_an_emulated_perftest_ends(self):
        self.expected_tables = 3

        def check(said, result):
            self.assert_tests_done(said, result)
            self.assertEqual([client["completed"] for client in result["clients"]], [12, 12, 12], said)
        self.each(self.client(), check, ("duplicate", "mark_ce"))

    def test_two_kernels_end_theirs(self):
        self.expected_tables = 6
        self.each(self.two_kernels(), self.assert_tests_done, ("delay",))

    def test_recovery_takes_what_timers_say(self):
        command = [str(stage.ROOT / "tools/experiments/kernel_recovery"), "--build", str(self.build)]
        only, cases = ("", 18) if stage.ALL else ("last packet but one lost", 2)
        done = subprocess.run([*command, "--only", only], capture_output=True, text=True, check=False)
        print(done.stdout)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(len(re.findall("holds$", done.stdout, re.MULTILINE)), cases)

    def test_recovery_of_no_case_is_an_error(self):
        done = subprocess.run([str(stage.ROOT / "tools/experiments/kernel_recovery"), "--only", "nosuch"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("no case has 'nosuch' in its name", done.stderr)


if __name__ == "__main__":
    stage.main(live=False, guests=True)
