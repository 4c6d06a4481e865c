"""roce-check bites: a capture of links 5 % too fast, or of a fabric that takes no time, fails the original's rules."""

import subprocess

import stage

FASTER = "105Mbit/s"


class Verdict(stage.Stage):
    def simulated(self, config):
        capture = self.folder / f"{config.stem}.pcapng"
        subprocess.run([str(self.understudy), "simulate", str(config), "--capture", str(capture), "--quiet"],
                       capture_output=True, check=True)
        return capture

    def played(self, config):
        emulator = self.start(config)
        self.join().output(stage.RING_NODE)
        self.assertIn(emulator.wait(30), (0, stage.NOT_FAITHFUL))
        return emulator.capture

    def check(self, make, **other):
        original, changed = self.ring(idle="sleep"), self.ring("changed.toml", idle="sleep", **other)
        capture = make(changed)
        self.assert_holds(capture)
        told = self.assert_does_not_hold(capture, "--config", str(original))
        self.assertRegex(told, r"(?m)^ *rate .* FAILS ")

    def test_simulated_original_holds(self):
        config = self.ring()
        self.assert_holds(self.simulated(config), "--config", str(config))

    def test_simulated_and_faster(self):
        self.check(self.simulated, rate=FASTER)

    def test_simulated_without_pacing(self):
        self.check(self.simulated, pacing="false")

    def test_played_and_faster(self):
        self.check(self.played, rate=FASTER)

    @stage.only_in_full
    def test_played_without_pacing(self):
        self.check(self.played, pacing="false")


if __name__ == "__main__":
    stage.main()
