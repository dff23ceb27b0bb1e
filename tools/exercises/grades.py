"""The sheet that ./course grade fills, and its forms: CSV, JSON, JUnit, a table."""
import collections
import csv
import io
import json
import re
import xml.etree.ElementTree as xml

POINTS = 10                     # of an exercise that is passed; what hints cost, the teacher says
COLUMNS = ["student", "chapter", "exercise", "status", "mistake", "points", "checks", "hints", "solution_shown", "named", "detail"]


class Sheet:
    def __init__(self, seed, sandbox):
        self.seed, self.sandbox, self.rows = seed, sandbox, []

    def add(self, student, exercise, result, record):
        self.rows.append({"student": student, "chapter": exercise.number, "exercise": exercise.name, "status": result.status,
                          "mistake": result.mistake, "points": POINTS if result.status == "passed" else 0,
                          "checks": record.get("checks"), "hints": record.get("hints"), "solution_shown": record.get("shown"),
                          "named": "named" in record if exercise.fault else None,
                          "detail": result.detail, "sha256": result.sha256, "seconds": round(result.seconds, 2)})


def as_json(sheet):
    return json.dumps({"seed": sheet.seed, "sandbox": sheet.sandbox, "points_of_an_exercise": POINTS, "grades": sheet.rows}, indent=1) + "\n"


def as_csv(sheet):
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in sheet.rows:
        writer.writerow([harmless(row[c]) for c in COLUMNS])
    return out.getvalue()


def harmless(value):
    """A spreadsheet takes a text that begins so for a formula."""
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return "'" + value
    return "" if value is None else value


def as_junit(sheet):
    """A suite a student, a case an exercise."""
    root = xml.Element("testsuites")
    by_student = collections.defaultdict(list)
    for row in sheet.rows:
        by_student[row["student"]].append(row)
    for student, rows in by_student.items():
        counts = collections.Counter(row["status"] for row in rows)
        skipped = counts["not handed in"]
        suite = xml.SubElement(root, "testsuite", name=valid(student), tests=str(len(rows)), skipped=str(skipped),
                               failures=str(len(rows) - skipped - counts["passed"]), errors="0")
        for row in rows:
            case = xml.SubElement(suite, "testcase", classname=valid(student), name=row["exercise"], time=str(row["seconds"]))
            words = row["status"] + (f": {row['mistake']}" if row["mistake"] else "")
            if row["status"] == "not handed in":
                xml.SubElement(case, "skipped", message=words)
            elif row["status"] != "passed":
                xml.SubElement(case, "failure", message=words).text = valid(row["detail"])
    xml.indent(root)
    return xml.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def valid(text):
    """Without the characters that XML knows no way to write."""
    return re.sub("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "?", text)


BY_ENDING = {".csv": as_csv, ".json": as_json, ".xml": as_junit}


def write(path, text):
    """Whole or not at all: a reader never sees half a sheet."""
    aside = path.with_name(path.name + ".part")
    aside.write_text(text, encoding="utf-8", errors="replace")
    aside.replace(path)


def tally(words):
    return ", ".join(f"{count} {word}" for word, count in collections.Counter(words).most_common())


def by_exercise(sheet):
    """What a teacher talks about next: a line an exercise, with the mistakes made in it."""
    lines = []
    for name in dict.fromkeys(row["exercise"] for row in sheet.rows):
        rows = [row for row in sheet.rows if row["exercise"] == name]
        passed = sum(row["status"] == "passed" for row in rows)
        others = tally(row["mistake"].replace("_", " ") if row["mistake"] else row["status"] for row in rows if row["status"] != "passed")
        lines.append(f"{rows[0]['chapter']} {name:24} {passed} of {len(rows)} passed" + (f"   {others}" if others else ""))
    return "\n".join(lines)
