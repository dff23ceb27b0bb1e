"""./course bundle [FOLDER]: what the course needs, for a machine that has a compiler, CMake, Python and no network.

  ./course bundle            fills bundle/ here; carry this whole folder to the other machine
  ./course bundle FOLDER     makes FOLDER, which is not there yet: the course, its text and bundle/ in it

There ./course uses bundle/ by itself, for all that the machine lacks. NCCL is not in it (its library alone is 300 MB): it comes
from the machine. Neither is oneDNN (40 MB), without which plain loops multiply on the processor.
"""
import contextlib
import datetime
import hashlib
import json
import os
import shutil
import tempfile
import typing
import zipfile
from pathlib import Path

import course_pip
from course_base import ROOT, Stop, capture

MOST_BYTES = 60 * 10**6                                 # of FOLDER, or of what is carried of this folder


class Wheel(typing.NamedTuple):
    """A package of PyPI: programs or libraries that need no particular place."""
    name: str
    version: str
    sha256: str
    licence: str
    parts: dict                                         # {folder in the wheel: folder in the bundle}


class Debian(typing.NamedTuple):
    """A package that is installed here. Paths are those of /usr; {multiarch} is this machine's triplet."""
    name: str
    licence: str
    paths: list


WHEELS = [
    Wheel("mpich", "4.0.3", "a01201f0e9cc50a95a521d3e0ab510169f7ac925a10b45ef26616da17444d596", "MPICH's own, permissive",
          {"mpich-4.0.3.data/data": "mpich", "mpich-4.0.3.dist-info/licenses": "licences/mpich"}),
    Wheel("ninja", "1.13.2", "65a24341b5ac09fcadcc37082660be40a94174e51a937fabf6e2cae26225fa2c", "Apache-2.0",
          {"ninja-1.13.2.data/scripts": "bin", "ninja-1.13.2.dist-info/licenses": "licences/ninja"}),
]
DEBIAN = [
    Debian("catch2", "BSL-1.0", ["include/catch2"]),
    Debian("nlohmann-json3-dev", "MIT", ["include/nlohmann", "share/cmake/nlohmann_json"]),
    Debian("libcli11-dev", "BSD-3-Clause", ["include/CLI", "share/cmake/CLI11"]),
    Debian("libxxhash-dev", "BSD-2-Clause", ["include/xxhash.h", "include/xxh3.h", "lib/{multiarch}/libxxhash.a"]),
    Debian("libpcre2-dev", "BSD-3-Clause", ["include/pcre2.h", "lib/{multiarch}/libpcre2-8.a"]),
]


def output_of(*command):
    code, out, _ = capture(command, apart=True)
    return "" if code else out


def fetch(wheels, pip, folder):
    """{name: file} of these wheels."""
    found, said = course_pip.fetch(pip, [(w.name, w.version, w.sha256) for w in wheels], folder, "--only-binary=:all:")
    missing = [f"{w.name} {w.version}" for w in wheels if w.name not in found]
    if missing:
        raise Stop(f"bundle: PyPI does not give {', '.join(missing)}: {said}")
    return found


def unpack(wheel, parts, folder):
    """Writes each file below a part of the wheel into the part's folder, with its right to run."""
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            part = next((p for p in parts if member.filename.startswith(p + "/")), None)
            if part is None or member.is_dir():
                continue
            to = folder / parts[part] / member.filename[len(part) + 1:]
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_bytes(archive.read(member))
            to.chmod(0o755 if member.external_attr >> 16 & 0o111 else 0o644)


def copy(source, to):
    if source.is_dir():
        shutil.copytree(source, to, symlinks=False, dirs_exist_ok=True)
    else:
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, to)


def fill(folder, pip, beside=0):
    """Makes the folder: everything, or nothing. Returns its bytes and those `beside` it, which together are MOST_BYTES at most."""
    multiarch = output_of("gcc", "-print-multiarch").strip()
    with tempfile.TemporaryDirectory(prefix=".bundle-", dir=folder.parent) as aside:
        made, wheels = Path(aside) / "bundle", Path(aside) / "wheels"
        made.mkdir()
        wheels.mkdir()
        packages = []
        for name, path in fetch(WHEELS, pip, wheels).items():
            wheel = next(w for w in WHEELS if w.name == name)
            unpack(path, wheel.parts, made)
            packages.append({"name": name, "version": wheel.version, "licence": wheel.licence, "from": "PyPI"})
        library = made / "mpich" / "lib" / "libmpi.so"      # in the wheel a linker script, and not every linker looks beside it
        library.unlink()
        library.symlink_to("libmpi.so.12")
        for package in DEBIAN:
            for path in package.paths:
                source = Path("/usr") / path.format(multiarch=multiarch)
                if not source.exists():
                    raise Stop(f"bundle: {source} is not here; ./course setup installs what Debian calls {package.name}")
                copy(source, made / path.replace("{multiarch}/", ""))
            with contextlib.suppress(OSError):
                copy(Path("/usr/share/doc") / package.name / "copyright", made / "licences" / (package.name + ".txt"))
            version = output_of("dpkg-query", "-W", "-f", "${Version}", package.name).strip()
            packages.append({"name": package.name, "version": version or "unknown", "licence": package.licence, "from": "Debian"})
        manifest = {"made": datetime.date.today().isoformat(), "machine": os.uname().machine, "packages": packages,
                    "files": files_of(made)}
        (made / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
        bytes_ = size_of(made.rglob("*")) + beside
        if bytes_ > MOST_BYTES:
            raise Stop(f"bundle: {bytes_ / 1e6:.0f} MB are more than the {MOST_BYTES / 1e6:.0f} that it may be")
        if folder.exists():
            shutil.rmtree(folder)
        made.rename(folder)
    return bytes_


def files_of(folder):
    """{path: sha256, or -> where a link points}, of all files but the manifest."""
    found = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_symlink() or p.is_file()):
        name = path.relative_to(folder).as_posix()
        if name != "manifest.json":
            found[name] = "-> " + os.readlink(path) if path.is_symlink() else hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def differences(folder):
    """Lines: what of a bundle is not as its manifest says."""
    try:
        wanted = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["files"]
    except (OSError, ValueError, KeyError) as error:
        return [f"{folder}/manifest.json: {error}"]
    found = files_of(folder)
    return ([f"{name} is missing" for name in wanted if name not in found]
            + [f"{name} is not in the manifest" for name in found if name not in wanted]
            + [f"{name} has changed" for name in found if wanted.get(name, found[name]) != found[name]])


def size_of(paths):
    return sum(p.lstat().st_size for p in paths if p.is_symlink() or p.is_file())


def sources():
    """The course's own files: what git knows and what it does not ignore, or all but what was built."""
    listed = output_of("git", "ls-files", "-co", "--exclude-standard", "-z").split("\0")
    if any(listed):
        return [ROOT / name for name in listed if name and (ROOT / name).is_file()]
    built = {"runs", "bundle", ".git", ".peer", "__pycache__"}
    return [p for p in ROOT.rglob("*") if p.is_file()
            and not any(part in built or part.startswith("build") for part in p.relative_to(ROOT).parts)]


def make_whole(whole, carried, pip):
    """Fills a new or empty folder: the course with its bundle/, or nothing, so that one may try again. Returns its bytes."""
    whole.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".course-", dir=whole) as aside:
        made = Path(aside)
        bytes_ = fill(made / "bundle", pip, beside=size_of(carried))
        for path in carried:
            copy(path, made / path.relative_to(ROOT))
        for part in list(made.iterdir()):
            part.rename(whole / part.name)
    return bytes_


def main(arguments, pip):
    if arguments in (["--help"], ["-h"]):
        print(__doc__.strip())
        return 0
    if len(arguments) > 1 or (arguments and arguments[0].startswith("-")):
        raise Stop(f"bundle takes one folder, not {' '.join(arguments)}", 2)
    if not pip:
        raise Stop("bundle: pip is missing, and MPI comes from PyPI; ./course setup installs it")
    whole = Path(arguments[0]).resolve() if arguments else None
    if whole and (ROOT == whole or ROOT in whole.parents or (whole.exists() and (not whole.is_dir() or any(whole.iterdir())))):
        raise Stop(f"bundle: {whole} must be a new or empty folder outside the course's own", 2)
    own = sources()
    carried = own + [p for p in (ROOT / "data").rglob("*") if p.is_file() and p not in own]
    folder = (whole or ROOT) / "bundle"
    try:
        bytes_ = make_whole(whole, carried, pip) if whole else fill(folder, pip, beside=size_of(carried))
    except (OSError, zipfile.BadZipFile) as error:
        raise Stop(f"bundle: {error}") from None
    for package in json.loads((folder / "manifest.json").read_text())["packages"]:
        print(f"{package['name']:20} {package['version']:20} {package['licence']:24} {package['from']}")
    print(f"{folder if whole else 'bundle/'}: with the course {bytes_ / 1e6:.0f} MB. On the other machine: "
          f"{'cd ' + str(whole) + ' && ' if whole else ''}./course gpu-check")
    return 0
