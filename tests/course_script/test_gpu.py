"""Tests of what ./course does for GPUs: who is here, bundle/, the report. They build nothing and need no GPU and no network."""
import contextlib
import ctypes
import io
import json
import os
import sys
import tempfile
import unittest
import unittest.mock
import zipfile
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[2] / "tools")]
sys.dont_write_bytecode = True
import course_bundle as bundle  # noqa: E402
import course_gpu as gpu  # noqa: E402
import course_gpu_check as check  # noqa: E402
import course_gpu_report as report  # noqa: E402
from test_course import InAFolder, course  # noqa: E402


class Driver:
    """Stands in for libcuda.so.1."""

    def __init__(self, names, code=0):
        self.names, self.code = names, code

    def cuInit(self, flags):
        return self.code

    def cuGetErrorString(self, code, text):
        text._obj.value = b"no CUDA-capable device is detected"

    def cuDeviceGetCount(self, count):
        count._obj.value = len(self.names)

    def cuDeviceGet(self, device, number):
        device._obj.value = number

    def cuDeviceGetName(self, name, size, device):
        name.value = self.names[device.value].encode()

    def cuDeviceTotalMem_v2(self, memory, device):
        memory._obj.value = 80 * 2**30 - 5

    def cuDeviceGetAttribute(self, value, which, device):
        value._obj.value = {gpu.CAPABILITY_MAJOR: 9, gpu.CAPABILITY_MINOR: 0}[which]

    def cuDriverGetVersion(self, number):
        number._obj.value = 12040
        return 0


class Cards(unittest.TestCase):
    def test_what_the_driver_tells(self):
        cards, why = gpu.cards(Driver(["NVIDIA H100", "NVIDIA H100"]))
        self.assertEqual((cards, why), ([{"name": "NVIDIA H100", "capability": "9.0", "gib": 80}] * 2, ""))
        self.assertEqual(gpu.words(cards), "2 x NVIDIA H100 (compute capability 9.0, 80 GiB)")
        self.assertEqual(gpu.driver_version(Driver([]))[1], "12.4")

    def test_why_there_is_none(self):
        self.assertEqual(gpu.cards(Driver([])), ([], "the driver sees none"))
        self.assertEqual(gpu.cards(Driver([], code=100)), ([], "the driver answers: no CUDA-capable device is detected"))
        with unittest.mock.patch.object(gpu, "DRIVERS", ["libnothing.so.1"]):
            self.assertEqual(gpu.cards(), ([], "no GPU driver, libcuda.so.1"))


class UseOfTheBundle(InAFolder):
    """bundle/ is used where something is missing, and only there."""

    def setUp(self):
        super().setUp()
        (self.root / "bundle").mkdir()
        (self.root / "bundle" / "manifest.json").write_text(json.dumps({"machine": os.uname().machine}))

    def used(self, missing, cache=None):
        needs = [course.Need(["must"], "must", not missing), course.Need(["nice"], "nice", False, "slower")]
        with unittest.mock.patch.multiple(course, needs=lambda: needs, cache=lambda: cache or {}), \
                unittest.mock.patch.dict(os.environ, {"PATH": "/usr/bin", "CMAKE_PREFIX_PATH": "/opt"}):
            course.use_bundle()
            return course.bundled(), os.environ["PATH"], os.environ["CMAKE_PREFIX_PATH"]

    def test_where_something_is_missing(self):
        here = self.root / "bundle"
        self.assertEqual(self.used(missing=True), (True, f"{here}/mpich/bin:{here}/bin:/usr/bin", f"{here}:/opt"))

    def test_a_machine_that_has_all_uses_its_own(self):
        self.assertEqual(self.used(missing=False), (False, "/usr/bin", "/opt"))

    def test_a_build_that_began_with_it_stays_with_it(self):
        self.assertTrue(self.used(False, {"MPI_CXX_COMPILER": f"{self.root}/bundle/mpich/bin/mpicxx"})[0])

    def test_one_for_another_machine_is_left_alone(self):
        (self.root / "bundle" / "manifest.json").write_text(json.dumps({"machine": "z80"}))
        self.assertFalse(self.used(missing=True)[0])

    def test_nothing_is_installed_where_it_is_used(self):
        needs = [course.Need(["nice"], "nice", False, "slower")]
        with unittest.mock.patch.multiple(course, needs=lambda: needs, bundled=lambda: True, capture=unittest.mock.DEFAULT) as patched:
            self.assertFalse(course.install_missing(again=True))
            patched["capture"].assert_not_called()


class Doctor(InAFolder):
    def said(self, cards, nvcc, cache):
        with unittest.mock.patch.multiple(gpu, cards=lambda: cards, nvcc=lambda: nvcc), unittest.mock.patch.multiple(
                course, cache=lambda: cache, capture=lambda command: (0, "release 13.0, V13.0.88")):
            return course.examine_gpu()

    def test_what_it_says_of_gpus(self):
        one = ([{"name": "NVIDIA H100", "capability": "9.0", "gib": 80}], "")
        card, none = "NVIDIA H100 (compute capability 9.0, 80 GiB)", ([], "no GPU driver")
        with_cuda, without = {"CMAKE_CUDA_FLAGS_RELEASE": "-O3"}, {"COURSE_CUDA": "auto"}
        self.assertEqual(self.said(one, "nvcc", with_cuda), ("ok", f"CUDA 13.0, {card}", ""))
        self.assertEqual(self.said(one, "nvcc", {}), ("ok", f"CUDA 13.0, {card}", ""))
        self.assertEqual(self.said(one, "nvcc", without), ("note", f"CUDA 13.0, {card}: this build does not use it", "./course setup"))
        self.assertEqual(self.said(one, "nvcc", {"COURSE_CUDA": "off"})[2], "cmake -B build -DCOURSE_CUDA=auto && ./course setup")
        self.assertEqual(self.said(one, None, without)[:2], ("note", f"{card}, and no CUDA toolkit: the build is for processors"))
        self.assertEqual(self.said(none, "nvcc", without), ("note", "no GPU here (no GPU driver); CUDA 13.0", ""))
        self.assertEqual(self.said(none, None, without), ("ok", "no GPU here (no GPU driver); no CUDA toolkit", ""))


class Making(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def test_a_wheel_is_unpacked_by_its_parts(self):
        wheel = self.folder / "mpich.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            run = zipfile.ZipInfo("m.data/data/bin/mpirun")
            run.external_attr = 0o755 << 16
            archive.writestr(run, "#!")
            archive.writestr("m.data/data/include/mpi.h", "header")
            archive.writestr("m.dist-info/RECORD", "not wanted")
        bundle.unpack(wheel, {"m.data/data": "mpich"}, self.folder / "made")
        self.assertEqual(sorted(bundle.files_of(self.folder / "made")), ["mpich/bin/mpirun", "mpich/include/mpi.h"])
        self.assertTrue(os.access(self.folder / "made/mpich/bin/mpirun", os.X_OK))

    def test_all_or_nothing(self):
        old = self.folder / "bundle" / "old"
        old.parent.mkdir()
        old.write_text("of before")
        with unittest.mock.patch.object(bundle, "fetch", side_effect=bundle.Wrong("PyPI does not give mpich")):
            with self.assertRaises(bundle.Wrong):
                bundle.fill(self.folder / "bundle", ["false"])
        self.assertEqual(list(self.folder.rglob("*")), [old.parent, old])

    def test_what_cannot_be_is_one_line(self):
        full = self.folder / "full"
        full.mkdir()
        (full / "mine").write_text("")
        for arguments, pip, code, words in (([str(full)], ["pip"], 2, "new or empty"), ([str(bundle.ROOT / "x")], ["pip"], 2, "outside the course"),
                                            (["a", "b"], ["pip"], 2, "takes one folder"), (["--nosuch"], ["pip"], 2, "takes one folder"),
                                            ([], None, 1, "pip is missing")):
            said = io.StringIO()
            with contextlib.redirect_stderr(said):
                self.assertEqual(bundle.main(arguments, pip), code, arguments)
            self.assertIn(words, said.getvalue())
            self.assertEqual(len(said.getvalue().splitlines()), 1)

    def test_no_network_is_one_line(self):
        with self.assertRaisesRegex(bundle.Wrong, r"PyPI does not give mpich 4.0.3, ninja 1.13.2: "):
            bundle.fetch(bundle.WHEELS, [sys.executable, "-c", "import sys; sys.exit('no route')"], self.folder)


JUNIT = """<?xml version="1.0"?><testsuite>
<testcase name="backend.1" status="run" time="1.5"><system-out>fine, no error here</system-out></testcase>
<testcase name="comm.2" status="fail" time="0.5"><failure message=""/><system-out>many lines
rank 1: y differs by 3
more</system-out></testcase>
<testcase name="cuda.1" status="notrun" time="0.1"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/><system-out>
driver version is insufficient</system-out></testcase>
</testsuite>"""


class Report(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def report(self, emulated=False):
        machine = {"date": "2026-11-28T14:00", "emulated": emulated, "cores": 16}
        machine.update({} if emulated else {"card": "NVIDIA H100", "driver": "580.1", "driver_cuda": "13.0", "toolkit": "13.0.88"})
        return report.Report(self.folder, machine)

    def read(self):
        return (self.folder / "gpu-report.md").read_text(), json.loads((self.folder / "gpu-report.json").read_text())

    def test_what_ctest_wrote(self):
        (self.folder / "junit.xml").write_text(JUNIT)
        self.assertEqual(check.read_junit(self.folder / "junit.xml"),
                         [("backend.1", "passed", 1.5, ""), ("comm.2", "FAILED", 0.5, "rank 1: y differs by 3"),
                          ("cuda.1", "skipped", 0.1, "driver version is insufficient")])
        self.assertEqual(check.read_junit(self.folder / "none.xml"), [])

    def test_a_group_that_runs_nothing_has_failed(self):
        report = self.report()
        with unittest.mock.patch.object(check, "run", lambda command, timeout=None: (8, "", "No tests were found!!!")):
            check.run_tests(report, [("chapter 01", ["-L", "x"]), ("chapter 02", ["-L", "y"])], self.folder, 1, lambda line: None)
        self.assertEqual([(t["group"], t["result"]) for t in report.tests], [("chapter 01", "FAILED"), ("chapter 02", "FAILED")])

    def test_a_run_that_is_cut_off_says_so(self):
        report = self.report()
        report.test("chapter 01", "01.2", "passed")
        report.write()
        self.assertIn("cut off", self.read()[0])
        report.write(complete=True)
        self.assertNotIn("cut off", self.read()[0])

    def test_the_emulated_one_cannot_be_taken_for_a_gpus(self):
        self.report(emulated=True).write(complete=True)
        text, data = self.read()
        self.assertIn("**Emulated**: no GPU has seen any of this", text)
        self.assertTrue(data["emulated"])
        self.report().write(complete=True)
        text, data = self.read()
        self.assertNotIn("mulated", text)
        self.assertIn("2026-11-28T14:00: NVIDIA H100, driver 580.1 (for CUDA 13.0), toolkit 13.0.88, 16 cores.", text)

    def test_failures_come_first_with_their_reason(self):
        report = self.report()
        report.test("chapter 01", "good", "passed", 1)
        report.test("chapter 02", "bad", "FAILED", 1, "rank 0: a | b\nwas 3")
        report.figure("Attention", kernel="attention", us=12.345678, beside=None)
        report.write(complete=True)
        text, data = self.read()
        self.assertIn("Tests: 1 passed, 1 failed, 0 skipped.", text)
        self.assertLess(text.index("| bad | FAILED | rank 0: a \\| b was 3 |"), text.index("| chapter 01 | good | passed |"))
        self.assertIn("| attention | 12.35 | – |", text)
        self.assertEqual(data["figures"][0]["us"], 12.345678)

    def test_what_a_program_refuses_is_skipped_and_what_fails_is_not(self):
        report = self.report()
        answers = iter([(2, "", "--dtype mixed: no bf16"), (1, "", "rank 0: an error"), (0, '{"tokens_per_s": 5}\n', ""), (0, "no json", "")])
        for name in "abcd":
            with unittest.mock.patch.object(check, "run", lambda command: next(answers)):
                _, why, code = check.last_json(["x"])
            check.timed(report, name, code, why)
        self.assertEqual([(t["name"], t["result"]) for t in report.tests], [("a", "skipped"), ("b", "FAILED"), ("c", "passed"), ("d", "FAILED")])


class Figures(unittest.TestCase):
    """On a GPU, with the programs' answers in the place of the programs."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        machine = {"date": "", "emulated": False, "cores": 1, "card": "", "driver": "", "driver_cuda": "", "toolkit": ""}
        self.report, self.asked = report.Report(Path(folder.name), machine), []

    def answer(self, command, timeout=None):
        words = [str(word) for word in command]
        self.asked.append(words)
        if any("torch_attention" in word for word in words):
            return (0, '{"name": "attention", "us": 30.0}\n{"name": "attention_backward", "us": 90.0}\n', "") if "f32" in words else (1, "", "no")
        if any("torch_llama" in word for word in words):
            return 0, '{"tokens_per_s": 1000, "step_ms": 8}\n', ""
        if any("gpu_kernels" in word for word in words):
            lines = [{"name": "copy", "dtype": "f32", "us": 2.0, "gb_per_s": 3000.0, "of_copy": 1.0},
                     {"name": "attention", "dtype": "f32", "us": 40.0, "shape": "s"}, {"name": "rms_norm", "dtype": "bf16", "refused": "no bf16 here"},
                     {"name": "matmul, a", "dtype": "f32", "us": 4.0, "shape": "s", "tflop_per_s": 50.0, "of_cublas": 0.9}]
            return 0, "".join(json.dumps(line) + "\n" for line in lines if line["dtype"] in words), ""
        if "mixed" in words:
            return 2, "", "--dtype mixed: bf16 is not built yet"
        return 0, json.dumps({"tokens_per_s": 900 / int(words[2]), "step_ms": 9}) + "\n", ""

    def test_ratios_and_where_they_come_from(self):
        with unittest.mock.patch.object(check, "run", self.answer):
            for figures in (check.step_figures, check.kernel_figures):
                figures(self.report, False, Path("build-gpu"), "mpirun", ("python3", "PyTorch 2.11"), lambda line: None)
        rows = {(f["group"], f.get("dtype") or f["ranks"], f.get("kernel") or f.get("product")): f for f in self.report.figures}
        step = rows["A training step, one rank", "f32", None]
        self.assertEqual((step["tokens/s"], step["PyTorch 2.11 tokens/s"], step["ours / PyTorch"]), (900, 1000, 0.9))
        self.assertIsNone(rows["A training step, one rank", "mixed", None]["ours / PyTorch"])
        shared = "Ranks that share the GPUs here: what sharing costs, no speed-up"
        self.assertEqual([rows[shared, ranks, None]["of one rank"] for ranks in (2, 4)], [0.5, 0.25])
        self.assertEqual(rows["Attention", "f32", "attention"]["PyTorch / ours"], 0.75)
        self.assertEqual(rows["Matrix products", "f32", "matmul, a"]["of cuBLAS alone"], 0.9)
        self.assertEqual(rows["Kernels that move memory", "f32", "copy"]["GB/s"], 3000)
        results = {t["name"]: t["result"] for t in self.report.tests}
        self.assertEqual((results["a step in f32"], results["a step in mixed"], results["rms_norm in bf16"]), ("passed", "skipped", "skipped"))
        for words in self.asked:                        # the same step for both
            if any("13_two_dimensional" in word or "torch_llama" in word for word in words):
                flags = dict(zip(words, words[1:]))
                self.assertEqual((flags["--preset"], flags["--batch"], flags["--device"]), ("article", "16", "cuda"))

    def test_without_a_torch_its_columns_say_why(self):
        with unittest.mock.patch.object(check, "run", self.answer):
            check.step_figures(self.report, False, Path("b"), "mpirun", (None, "no torch here"), lambda line: None)
        self.assertEqual(self.report.figures[0]["note"], "no torch here")
        self.assertNotIn("ours / PyTorch", self.report.figures[0])


class GpuCheck(InAFolder):
    def test_without_a_gpu_one_line_and_2(self):
        with unittest.mock.patch.object(gpu, "cards", lambda: ([], "no GPU driver, libcuda.so.1")):
            code, out, err = self.main("gpu-check")
        self.assertEqual((code, out), (2, ""))
        self.assertEqual(err, "course: gpu-check: no GPU to check: no GPU driver, libcuda.so.1; ./course gpu-check --emulate runs on the emulated GPU\n")

    def test_the_build_is_for_the_cards_that_are_here(self):
        options = check.parse([])
        options.machine = {"cards": [{"capability": "9.0"}, {"capability": "8.6"}, {"capability": "9.0"}], "nccl": ""}
        self.assertEqual(check.definitions(options), ["-DCOURSE_CUDA=on", "-DCMAKE_CUDA_ARCHITECTURES=86-real;90-real"])
        options.machine["nccl"] = "/opt/nvidia/nccl"
        self.assertEqual(check.definitions(options)[2:], ["-DNCCL_ROOT=/opt/nvidia/nccl"])
        self.assertEqual(check.definitions(check.parse(["--emulate"])), ["-DCOURSE_CUDA=emulate"])

    def test_a_build_that_fails_is_reported(self):
        options = check.parse(["--emulate", "--out", str(self.root / "out")])
        check.find_device(options, course.Stop)

        def make(targets):
            raise course.Stop("the build failed, its words are above")

        with contextlib.redirect_stdout(io.StringIO()), self.assertRaises(course.Stop):
            check.main(options, self.root, "mpirun", make, course.Stop)
        report = json.loads((self.root / "out" / "gpu-report.json").read_text())
        self.assertEqual([(t["name"], t["result"]) for t in report["tests"]], [("build", "FAILED")])


if __name__ == "__main__":
    unittest.main()
