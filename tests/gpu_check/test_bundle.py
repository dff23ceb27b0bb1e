"""./course bundle, made for real. MPI comes from PyPI, so without a network it is skipped."""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
sys.dont_write_bytecode = True
import course_bundle  # noqa: E402

PROBE = """#include <mpi.h>
#include <catch2/catch.hpp>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <xxhash.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <cstdio>
int main(int argc, char** argv) {
  int rank = 0, ranks = 0, code = 0; size_t at = 0;
  MPI_Init(&argc, &argv); MPI_Comm_rank(MPI_COMM_WORLD, &rank); MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  auto* pattern = pcre2_compile((PCRE2_SPTR)"a+", 2, 0, &code, &at, nullptr);
  std::printf("%d of %d, %d, %d\\n", rank, ranks, pattern != nullptr, XXH64("x", 1, 0) != 0);
  pcre2_code_free(pattern); MPI_Finalize();
}
"""


class Bundle(unittest.TestCase):
    def test_what_it_makes(self):
        with tempfile.TemporaryDirectory() as outside:
            made = Path(outside) / "elsewhere" / "course"
            done = subprocess.run([sys.executable, str(ROOT / "course"), "bundle", str(made)], cwd=ROOT, capture_output=True, text=True, timeout=600)
            if "PyPI does not give" in done.stderr:
                self.skipTest(done.stderr.strip())
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            files = [p for p in made.rglob("*") if p.is_symlink() or p.is_file()]
            self.assertLess(sum(p.lstat().st_size for p in files), 60e6)
            bundle = made / "bundle"
            self.assertEqual(course_bundle.differences(bundle), [])
            packages = json.loads((bundle / "manifest.json").read_text())["packages"]
            self.assertEqual([p["name"] for p in packages],
                             ["mpich", "ninja", "catch2", "nlohmann-json3-dev", "libcli11-dev", "libxxhash-dev", "libpcre2-dev"])
            for package in packages:
                self.assertRegex(package["version"], r"^\d", package["name"])
                self.assertTrue(package["licence"])
                self.assertTrue(list((bundle / "licences").glob(package["name"] + "*")), package["name"])
            for name in ("course", "CMakeLists.txt", "chapters/13_two_dimensional/main.cpp", "tests/golden"):
                self.assertTrue((made / name).exists(), name)
            self.assertTrue(os.access(made / "course", os.X_OK))
            self.uses(bundle, Path(outside))
            self.tells_of_changes(bundle)

    def uses(self, bundle, folder):
        """Its headers, its libraries and its MPI, where they were put: nothing of this machine's."""
        (folder / "probe.cpp").write_text(PROBE)
        build = subprocess.run([str(bundle / "mpich/bin/mpicxx"), "-fopenmp", f"-I{bundle}/include", "-H", "probe.cpp", f"{bundle}/lib/libpcre2-8.a",
                                f"{bundle}/lib/libxxhash.a", "-o", "probe"], cwd=folder, capture_output=True, text=True)
        self.assertEqual(build.returncode, 0, build.stderr[-2000:])
        for header in ("mpi.h", "catch2/catch.hpp", "CLI/CLI.hpp", "nlohmann/json.hpp", "xxhash.h", "pcre2.h"):
            used = re.findall(rf"^\.+ (\S*/{re.escape(header)})$", build.stderr, re.M)
            self.assertTrue(used and all(str(bundle) in path for path in used), (header, used))
        run = subprocess.run([str(bundle / "mpich/bin/mpirun"), "-n", "2", "./probe"], cwd=folder, capture_output=True, text=True, timeout=60)
        self.assertEqual(sorted(run.stdout.splitlines()), ["0 of 2, 1, 1", "1 of 2, 1, 1"], run.stderr)

    def tells_of_changes(self, bundle):
        (bundle / "include/pcre2.h").write_text("other")
        (bundle / "include/xxhash.h").unlink()
        (bundle / "more").write_text("")
        self.assertEqual(sorted(course_bundle.differences(bundle)),
                         ["include/pcre2.h has changed", "include/xxhash.h is missing", "more is not in the manifest"])
