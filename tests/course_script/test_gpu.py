"""Tests of what ./course does for GPUs: who is here, bundle/, the report. They build nothing and need no GPU and no network."""
import contextlib
import io
import json
import os
import sys
import tempfile
import unittest
import unittest.mock
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from test_course import InAFolder, base, course  # noqa: E402
import bench  # noqa: E402
import course_bundle as bundle  # noqa: E402
import course_gpu as gpu  # noqa: E402
import course_gpu_check as check  # noqa: E402
import course_gpu_report as report  # noqa: E402


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

    def test_its_mpi_comes_before_the_systems(self):
        for folder in (bundle_bin := self.root / "bundle/mpich/bin"), (usr := self.root / "usr"):
            folder.mkdir(parents=True)
            for name in ("mpicxx", "mpirun", "mpicxx.mpich", "mpirun.mpich")[:2 if folder == bundle_bin else 4]:
                (folder / name).touch(0o755)
        with unittest.mock.patch.dict(os.environ, {"PATH": str(usr), "CMAKE_PREFIX_PATH": ""}):
            self.assertEqual(course.mpi_pair(), (f"{usr}/mpicxx.mpich", f"{usr}/mpirun.mpich"))
            needs = [course.Need(["catch2"], "Catch2", False)]
            with unittest.mock.patch.object(course, "needs", lambda: needs):
                course.use_bundle()
            self.assertEqual(course.mpi_pair(), (f"{bundle_bin}/mpicxx", f"{bundle_bin}/mpirun"))

    def test_it_is_asked_for_of_the_build_that_is_meant(self):
        (self.root / "build-emulate").mkdir()
        (self.root / "build-emulate" / "CMakeCache.txt").write_text(f"MPI_CXX_COMPILER:FILEPATH={self.root}/bundle/mpich/bin/mpicxx\n")
        for words, used in (["test", "--emulate"], True), (["test"], False), (["gpu-check", "--emulate"], True):
            with unittest.mock.patch.multiple(course, needs=lambda: [], slow_needs=lambda: [], configure=lambda *_: None, build=lambda *_: None,
                                              call=lambda *_: 0), \
                    unittest.mock.patch.object(check, "main", lambda *_: 0), \
                    unittest.mock.patch.dict(os.environ, {"PATH": os.environ["PATH"], "CMAKE_PREFIX_PATH": "", "COURSE_BUILD": ""}):
                self.assertEqual(self.main(*words)[0], 0)
                self.assertEqual(course.bundled(), used, words)

    def test_nothing_is_installed_where_it_is_used(self):
        needs = [course.Need(["nice"], "nice", False, "slower")]
        with unittest.mock.patch.multiple(course, needs=lambda: needs, bundled=lambda: True, capture=unittest.mock.DEFAULT) as patched:
            self.assertFalse(course.install_missing(again=True))
            patched["capture"].assert_not_called()


class Doctor(InAFolder):
    def said(self, cards, nvcc, cache):
        with unittest.mock.patch.multiple(gpu, cards=lambda: cards, nvcc=lambda: nvcc), unittest.mock.patch.object(
                course, "cache", lambda: cache), unittest.mock.patch.object(base, "capture", lambda command: (0, "release 13.0, V13.0.88")):
            return course.examine_gpu()

    def test_what_it_says_of_gpus(self):
        one = ([{"name": "NVIDIA H100", "capability": "9.0", "gib": 80}], "")
        card, none = "NVIDIA H100 (compute capability 9.0, 80 GiB)", ([], "no GPU driver")
        with_cuda, without = {"COURSE_CUDA": "auto", "COURSE_CUDA_CHOSEN": "on"}, {"COURSE_CUDA": "auto", "COURSE_CUDA_CHOSEN": "off"}
        self.assertEqual(self.said(one, "nvcc", with_cuda), ("ok", f"CUDA 13.0, {card}", ""))
        self.assertEqual(self.said(one, "nvcc", {}), ("ok", f"CUDA 13.0, {card}", ""))
        self.assertEqual(self.said(one, "nvcc", without), ("note", f"CUDA 13.0, {card}: this build does not use it", "./course setup"))
        for once_on in {}, {"CMAKE_CUDA_FLAGS": ""}:           # what an earlier build left in the cache says nothing
            self.assertEqual(self.said(one, "nvcc", {"COURSE_CUDA": "off", "COURSE_CUDA_CHOSEN": "off", **once_on})[1:],
                             (f"CUDA 13.0, {card}: this build does not use it", "cmake -B build -DCOURSE_CUDA=auto && ./course setup"))
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
        with unittest.mock.patch.object(bundle, "fetch", side_effect=base.Stop("PyPI does not give mpich")):
            with self.assertRaises(base.Stop):
                bundle.fill(self.folder / "bundle", ["false"])
            self.assertEqual(list(self.folder.rglob("*")), [old.parent, old])
            whole = self.folder / "whole"
            for _ in range(2):                              # a try that failed is not in the way of the next
                with self.assertRaisesRegex(base.Stop, "PyPI does not give mpich"):
                    bundle.main([str(whole)], ["false"])
                self.assertEqual(list(whole.rglob("*")), [])

    def test_what_is_too_large_is_not_left(self):
        wheel = self.folder / "mpich.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr("m.data/data/lib/libmpi.so", "linker script")
        mpich = bundle.Wheel("mpich", "1", "", "free", {"m.data/data": "mpich"})
        with unittest.mock.patch.multiple(bundle, WHEELS=[mpich], DEBIAN=[], fetch=lambda *_: {"mpich": wheel}, MOST_BYTES=10**6):
            with self.assertRaisesRegex(base.Stop, "1 MB are more than the 1 that it may be"):
                bundle.fill(self.folder / "bundle", ["pip"], beside=10**6)
            self.assertEqual(list(self.folder.iterdir()), [wheel])
            self.assertEqual(bundle.fill(self.folder / "bundle", ["pip"], beside=7), 7 + bundle.size_of((self.folder / "bundle").rglob("*")))

    def test_what_cannot_be_is_one_line(self):
        full = self.folder / "full"
        full.mkdir()
        (full / "mine").write_text("")
        for arguments, pip, code, words in (([str(full)], ["pip"], 2, "new or empty"), ([str(bundle.ROOT / "x")], ["pip"], 2, "outside the course"),
                                            (["a", "b"], ["pip"], 2, "takes one folder"), (["--nosuch"], ["pip"], 2, "takes one folder"),
                                            ([], None, 1, "pip is missing")):
            with self.assertRaises(base.Stop) as stopped:
                bundle.main(arguments, pip)
            self.assertEqual(stopped.exception.code, code, arguments)
            self.assertIn(words, str(stopped.exception))
            self.assertEqual(len(str(stopped.exception).splitlines()), 1)

    def test_without_git_what_was_built_and_the_peer_stay_behind(self):
        for name in ("course", "common/a.cpp", ".peer/lib/torch.so", "build/a.o", "build-gpu/a.o", "runs/1/m", "bundle/b"):
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).touch()
        with unittest.mock.patch.object(bundle, "ROOT", self.folder), unittest.mock.patch.object(bundle, "output_of", lambda *_: ""):
            self.assertEqual(sorted(bundle.sources()), [self.folder / "common/a.cpp", self.folder / "course"])

    def test_no_network_is_one_line(self):
        with self.assertRaisesRegex(base.Stop, r"PyPI does not give mpich 4.0.3, ninja 1.13.2: "):
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
        with unittest.mock.patch.object(check, "capture", lambda command: (8, "No tests were found!!!")):
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
            with unittest.mock.patch.object(bench, "capture", lambda command, timeout, apart: next(answers)):
                _, why, code = bench.last_json(["x"])
            check.timed(report, name, code, why)
        self.assertEqual([(t["name"], t["result"]) for t in report.tests], [("a", "skipped"), ("b", "FAILED"), ("c", "passed"), ("d", "FAILED")])


class Figures(unittest.TestCase):
    """On a GPU, with the programs' answers in the place of the programs."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        machine = {"date": "", "emulated": False, "cores": 1, "card": "", "driver": "", "driver_cuda": "", "toolkit": ""}
        self.report, self.asked = report.Report(Path(folder.name), machine), []

    def answer(self, command, timeout, apart):
        words = [str(word) for word in command]
        self.asked.append(words)
        if any("torch_attention" in word for word in words):
            return (0, '{"name": "attention", "us": 30.0}\n{"name": "attention_backward", "us": 90.0}\n', "") if "f32" in words else (
                1, "", "a line\nCUDA error: out of memory")
        if any("torch_llama" in word for word in words):
            return 0, '{"tokens_per_s": 1000, "step_ms": 8}\n', ""
        if any("gpu_kernels" in word for word in words):
            lines = [{"name": "copy", "dtype": "f32", "us": 2.0, "gb_per_s": 3000.0, "of_copy": 1.0},
                     {"name": "attention", "dtype": "f32", "us": 40.0, "shape": "s"},
                     {"name": "attention", "dtype": "bf16", "us": 20.0, "shape": "s"}, {"name": "rms_norm", "dtype": "bf16", "refused": "no bf16 here"},
                     {"name": "matmul, a", "dtype": "f32", "us": 4.0, "shape": "s", "tflop_per_s": 50.0, "of_cublas": 0.9}]
            return 0, "".join(json.dumps(line) + "\n" for line in lines if line["dtype"] in words), ""
        if "mixed" in words:
            return 2, "", "--device cuda: GPU 0, Some GPU, has compute capability 7.5, at the least 8.0 is needed; use --device cpu"
        return 0, json.dumps({"tokens_per_s": 900 / int(words[2]), "step_ms": 9}) + "\n", ""

    @contextlib.contextmanager
    def answers(self):
        with unittest.mock.patch.object(check, "capture", self.answer), unittest.mock.patch.object(bench, "capture", self.answer):
            yield

    def test_ratios_and_where_they_come_from(self):
        with self.answers():
            for figures in (check.step_figures, check.kernel_figures):
                figures(self.report, False, Path("build-gpu"), "mpirun", ("python3", "PyTorch 2.11"), lambda line: None)
        rows = {(f["group"], f.get("dtype") or f["ranks"], f.get("kernel") or f.get("product")): f for f in self.report.figures}
        step = rows["A training step, one rank", "f32", None]
        self.assertEqual((step["tokens/s"], step["PyTorch 2.11 tokens/s"], step["ours / PyTorch"]), (900, 1000, 0.9))
        self.assertIsNone(rows["A training step, one rank", "mixed", None]["ours / PyTorch"])
        shared = "Ranks that share the GPUs here: what sharing costs, no speed-up"
        self.assertEqual([rows[shared, ranks, None]["of one rank"] for ranks in (2, 4)], [0.5, 0.25])
        self.assertEqual((rows["Attention", "f32", "attention"]["PyTorch / ours"], rows["Attention", "f32", "attention"]["note"]), (0.75, ""))
        failed = rows["Attention", "bf16", "attention"]     # its peer did
        self.assertEqual((failed["us"], failed["PyTorch / ours"], failed["note"]), (20.0, None, "CUDA error: out of memory"))
        self.assertEqual(rows["Matrix products", "f32", "matmul, a"]["of cuBLAS alone"], 0.9)
        self.assertEqual(rows["Kernels that move memory", "f32", "copy"]["GB/s"], 3000)
        results = {t["name"]: t["result"] for t in self.report.tests}
        self.assertEqual((results["a step in f32"], results["a step in mixed"], results["rms_norm in bf16"]), ("passed", "skipped", "skipped"))
        for words in self.asked:                        # the same step for both
            if any("13_two_dimensional" in word or "torch_llama" in word for word in words):
                flags = dict(zip(words, words[1:]))
                self.assertEqual((flags["--preset"], flags["--batch"], flags["--device"]), ("article", "16", "cuda"))

    def test_without_a_torch_its_columns_say_why(self):
        with self.answers():
            check.step_figures(self.report, False, Path("b"), "mpirun", (None, "no torch here"), lambda line: None)
            check.kernel_figures(self.report, False, Path("b"), "mpirun", (None, "no torch here"), lambda line: None)
        self.assertEqual(self.report.figures[0]["note"], "no torch here")
        self.assertNotIn("ours / PyTorch", self.report.figures[0])
        self.assertEqual([f["note"] for f in self.report.figures if f["group"] == "Attention"], ["no torch here"] * 2)


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
        self.assertEqual(check.definitions(check.parse(["--emulate"])), [])

    def test_what_it_learns_of_the_machine(self):
        options = check.parse([])
        with unittest.mock.patch.multiple(gpu, cards=lambda: ([{"name": "NVIDIA H100", "capability": "9.0", "gib": 80}], ""),
                                          nvcc=lambda: "nvcc", driver_version=lambda: ("580.1", "13.0")), \
                unittest.mock.patch.object(base, "capture", lambda command: (0, "Cuda compilation tools, release 13.0, V13.0.88")), \
                unittest.mock.patch.object(bench, "PYTHONS", []):
            check.find_device(options)
        self.assertEqual((options.machine["toolkit"], options.machine["driver"], options.machine["nccl"]), ("13.0.88", "580.1", ""))
        self.assertEqual(options.peer, (None, "no torch here"))

    def test_a_named_python_must_have_a_torch(self):
        code, out, err = self.main("gpu-check", "--emulate", "--torch", "/nowhere/python")
        self.assertEqual((code, out, err), (2, "", "course: --torch /nowhere/python: that Python cannot import torch\n"))

    def test_its_build_lies_beside_the_one_that_is_named(self):
        for before, flags, folder in ("", ["--emulate"], "build-emulate"), ("elsewhere", ["--emulate"], "elsewhere-emulate"), ("x", [], "x-gpu"):
            with unittest.mock.patch.multiple(course, install_missing=lambda: None, configure=lambda *_: None), \
                    unittest.mock.patch.multiple(check, find_device=lambda options: None, definitions=lambda options: [],
                                                 main=unittest.mock.DEFAULT) as mocks, \
                    unittest.mock.patch.dict(os.environ, {"COURSE_BUILD": before}):
                mocks["main"].return_value = 0
                self.assertEqual(self.main("gpu-check", *flags)[0], 0)
            self.assertEqual(mocks["main"].call_args.args[1], self.root / folder)

    def test_a_build_that_fails_is_reported(self):
        options = check.parse(["--emulate", "--out", str(self.root / "out")])
        check.find_device(options)

        def make(targets):
            raise course.Stop("the build failed, its words are above")

        with contextlib.redirect_stdout(io.StringIO()), self.assertRaises(course.Stop):
            check.main(options, self.root, "mpirun", make)
        report = json.loads((self.root / "out" / "gpu-report.json").read_text())
        self.assertEqual([(t["name"], t["result"]) for t in report["tests"]], [("build", "FAILED")])


if __name__ == "__main__":
    unittest.main()
