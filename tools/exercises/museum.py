"""The broken programs of museum/: ./course museum lists them, ./course name museum/3 WORD says what is wrong with one.

Each is an exercise (source.py) whose stub is a broken program, so start, check, hint, solution and reset are those of the
exercises; it is passed when it is both mended and named. The names to choose from are the table in museum/README.md.
"""
import re

import runs
import source

ROW = re.compile(r"^\| `(\w+)` \| (.+) \|$", re.M)
SITE = re.compile(r" ?\(\S+\.[ch]pp:\d+\)")      # it differs from file to file


def names(root):
    """{name of a fault: what it is}, as museum/README.md has them. Throws source.Fault."""
    page = root / "museum" / "README.md"
    found = dict(ROW.findall(page.read_text(encoding="utf-8"))) if page.exists() else {}
    if not found:
        raise source.Fault(f"{page}: no table of faults, | `name` | what it is |")
    return found


def title(exhibit):
    """The heading of its README, without the number: "A checkpoint that is never written"."""
    page = exhibit.path.with_name("README.md")
    found = re.search(r"^# \d\d (.+)$", page.read_text(encoding="utf-8") if page.exists() else "", re.M)
    return found[1] if found else exhibit.name


def named(exhibits, word):
    """Those that museum/3, museum/03 or a name means; museum: all."""
    which = word.removeprefix("museum").strip("/")
    return [e for e in exhibits if which in ("", e.name, e.number[7:], e.number[7:].lstrip("0"))]


def state(entry):
    """What is done of one."""
    if entry["passed"]:
        return "passed"
    done = [word for word in ("mended", "named") if entry.get(word)]
    return done[0] if done else "begun" if entry["started"] else ""


def asked(entry):
    """"3 checks, 1 hints": what it took, of an exercise too."""
    counts = {"checks": entry["checks"], "hints": entry["hints"], "wrong names": entry.get("guesses")}
    return ", ".join([f"{count} {what}" for what, count in counts.items() if count] + ["solution shown"] * entry["shown"])


def listed(learner, words):
    learner.course.no_more(words, "museum")
    for exhibit in learner.exhibits.values():
        print(f"{exhibit.number:10} {title(exhibit):64} {state(learner.of(exhibit))}".rstrip())
    print("\n./course start museum/1 puts the first into work/; find the fault, name it, mend it")
    return 0


def name(learner, words):
    """./course name [museum/N] [WORD]"""
    known = names(learner.course.ROOT)
    word = next((w for w in reversed(words) if w not in learner.exhibits and w.split("/")[0] != "museum"), None)
    exhibit = learner.chosen([w for w in words if w != word])
    if not exhibit.fault:
        raise learner.course.Stop(f"{exhibit.name} is an exercise; ./course museum lists the programs to name", 2)
    if word is None:
        print(f"What is wrong with {exhibit.number}? One of these: ./course name {exhibit.number} WORD\n")
        for fault, what in known.items():
            print(f"  {fault:24} {what}")
        return 0
    if word not in known:
        raise learner.course.Stop(f"'{word}' is no fault's name; ./course name {exhibit.number} lists them", 2)
    if word != exhibit.fault.name:
        with learner.note(exhibit) as entry:
            entry["guesses"] = entry.get("guesses", 0) + 1
        print(f"{exhibit.number} is not a case of {word} ({known[word]})")
        return 1
    with learner.note(exhibit) as entry:
        entry.setdefault("named", learner.now())
    print(f"{exhibit.number} is a case of {word}.\n\n" + source.wrapped(exhibit.fault.says, ""))
    if not learner.of(exhibit).get("mended"):
        print(f"\nnow mend it: ./course check {exhibit.number}")
        return 0
    return passed(learner, exhibit)


def mended(learner, exhibit):
    """After a check that passed, which ends with 0: said once, and it is passed if it is named too."""
    with learner.note(exhibit) as entry:
        entry["mended"] = entry.get("mended") or learner.now()
    if not entry.get("named"):
        print(f"\nmended; what was the fault? ./course name {exhibit.number}")
        return 0
    return passed(learner, exhibit)


def passed(learner, exhibit):
    with learner.note(exhibit) as entry:
        entry["passed"] = entry["passed"] or learner.now()
    print(f"\n{exhibit.number} is passed: named and mended\n\nWhy it works\n" + source.wrapped(exhibit.why))
    left = next((e for e in learner.exhibits.values() if not learner.passed(e)), None)
    print(f"\nnext: ./course start {left.number}" if left else "\nall of the museum is passed")
    return 0


def progress(learner):
    """Lines of ./course progress."""
    done = sum(learner.passed(e) for e in learner.exhibits.values())
    yield f"museum: {done} of {len(learner.exhibits)}"
    for exhibit in learner.exhibits.values():
        entry = learner.of(exhibit)
        if state(entry):
            when = (entry["passed"] or "")[:16]
            yield f"{exhibit.number} {exhibit.name:17} {state(entry):8} {when:18} {asked(entry)}".rstrip()


# ---- the proof -------------------------------------------------------------------------------------------------------

def of_broken(course, exhibit):
    """It fails as its source says that it is seen, and is not taken for a repair of it. Lines of what is not so."""
    if mistake := runs.judge(course, exhibit, "stub").mistake:
        yield f"the broken program is taken for the wrong repair {mistake.name}"
    for ranks, lines in exhibit.seen.items():
        end = runs.run(course, exhibit, "stub", ranks)
        if end.how == "passed":
            yield f"the broken program on {ranks} ranks passes"
            continue
        said = [SITE.sub("", line) for line in runs.described(end).splitlines()]
        if end.how not in ("fault", "hang"):
            yield f"the broken program on {ranks} ranks fails in no clear way: {runs.described(end)}"
        for line in lines:
            if not any(words.strip().startswith(line.strip()) for words in said):
                yield f"the broken program on {ranks} ranks does not say '{line.strip()}', but\n  " + "\n  ".join(said)


def of_names(course, exhibits):
    """Every fault has a line in the table, and no two exhibits the same."""
    known, seen = names(course.ROOT), {}
    for exhibit in exhibits:
        fault = exhibit.fault.name
        if fault not in known:
            yield f"{exhibit.number}: its fault, {fault}, is not in museum/README.md"
        if fault in seen:
            yield f"{exhibit.number}: its fault, {fault}, is that of {seen[fault]} too"
        seen[fault] = exhibit.number
