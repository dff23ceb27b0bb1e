"""A class whose every student hands in exercise split (chapter 01), each in a way of their own.

HANDED_IN = {student: (status that is right, mistake or words of the detail that are right, the file's text)}, made by class_of().
"""
import re

BODY = "comm.all_reduce(y).wait();"             # of row_split, where the student's own code goes


def with_code(solution, code, head="", keep=BODY):
    """The solution with more code before its all-reduce, and before its first function."""
    assert solution.count(BODY) == 1
    text = solution.replace(BODY, code + "\n  " + keep)
    return re.sub(r"^namespace course \{$", lambda m: head + "\n" + m[0], text, count=1, flags=re.M)


INCLUDES = """#include <fcntl.h>
#include <sys/socket.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <unistd.h>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>
#include <thread>
#include <vector>
"""

OWN_REPORT = INCLUDES + """
static void forge(int code) {
  std::ifstream in("/proc/self/cmdline");
  std::string words((std::istreambuf_iterator<char>(in)), {}), path;
  const auto at = words.find("--report");
  path = words.c_str() + at + 9;
  std::ofstream(path) << R"({"exercise":"split","ranks":1,"checks":28,"passed":true,"fault":null,"values":[]})" << std::flush;
  _exit(code);
}
"""

FORGED = '"passed":true,"fault":null'
NO_FAULT = OWN_REPORT.replace(FORGED, '"passed":false,"fault":null')
HALF_A_FAULT = OWN_REPORT.replace(FORGED, '"passed":false,"fault":{"what":"x","with":"y","rank":0}')
LARGE_NUMBER = OWN_REPORT.replace('"values":[]', f'"values":[["seed",0,[{"9" * 400}]]]')
LONG_NAME = 'extern "C" void ' + "x" * 200_000 + "() {}\n"

OVERRIDES_CHECK = """
#include "tests/exercises/check.hpp"
namespace course { void Check::equal(const std::string&, const Tensor&, const Tensor&, double) { ++checks_; } }
"""

OVERRIDES_EXIT = 'extern "C" void exit(int) { __builtin_trap(); }\n'

FORKS = "if (comm.size() > 0) for (;;) { if (fork() < 0) usleep(1000); }"
DAEMON = """if (fork() == 0) { setsid(); if (fork() == 0) { for (int fd = 0; fd < 100; ++fd) close(fd);
    execlp("sleep", "sleep", "%(sleep)s", nullptr); } _exit(0); }"""
MEMORY = "std::vector<std::vector<char>> all; for (;;) { all.emplace_back(16 << 20, 'x'); usleep(1000); }"
MEGABYTES = "const std::string line(1 << 20, 'x'); for (int i = 0; i < 4; ++i) { std::cout << line << std::endl; std::cerr << line << std::endl; }"
# Right only where the other's file can be read.
READS = 'if (!std::ifstream("%(class)s/solution/01_column_row_split/split.cpp")) backend.scale(y, 3);'
CONNECTS = """sockaddr_in to{}; to.sin_family = AF_INET; to.sin_port = htons(%(port)s); to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(socket(AF_INET, SOCK_STREAM, 0), reinterpret_cast<sockaddr*>(&to), sizeof to) == 0) backend.scale(y, 3);"""
WRITES = """for (const char* path : {"%(root)s/written_by_a_student", "%(root)s/chapters/written_by_a_student", "%(class)s/written_by_a_student"})
    std::ofstream(path) << "x";"""


def class_of(solution, stub, wrong, places):
    """{student: (status, words, text)}. places: the values of %(class)s, %(root)s, %(port)s, %(sleep)s."""
    def code(text, head=INCLUDES, **more):
        return with_code(solution, text % places, head, **more)
    return {
        "solution": ("passed", "the same lines", solution),
        "stub": ("not handed in", "as ./course start made it", stub),
        "nothing": ("not handed in", "", None),
        "half": ("not handed in", "not written yet", solution.replace(BODY, 'not_written("split");')),
        "mean": ("wrong", "mean", wrong["mean"]),
        "floor": ("wrong", "floor", wrong["floor"]),
        "unknown_mistake": ("wrong", "yours", code("backend.scale(y, 1.001f);")),
        "does_not_compile": ("does not compile", "work/01_column_row_split/split.cpp:", solution.replace(BODY, "comm.all_reduces(y);")),
        "changed_signature": ("does not compile", "column_then_row: declared, and not in your file",
                              solution.replace("Tensor column_then_row(Backend& backend, Comm& comm, const Tensor& x,",
                                               "Tensor column_then_row(Backend& backend, Comm& comm, Tensor x,")),
        "crashes": ("crashed", "", code("*reinterpret_cast<volatile int*>(8) = 1;")),
        "throws": ("crashed", "no such thing", code('throw std::runtime_error("no such thing");')),
        "takes_memory": ("crashed", "MiB", code(MEMORY)),
        "hangs": ("hangs", "wait for each other", code("", keep="if (comm.rank() == 0) " + BODY)),
        "endless": ("hangs", "stopped after", code("for (volatile int i = 0;;) i = i + 1;")),
        "fork_bomb": ("hangs", "stopped after", code(FORKS)),
        "daemon": ("passed", "", code(DAEMON)),
        "megabytes": ("passed", "", code(MEGABYTES)),
        "prints_verdict": ("crashed", "exit() was called", code('std::cout << "split passed: 112 checks on 1, 2, 3, 4 ranks" << std::endl; exit(0);')),
        "exits": ("cheats", "exit code 0", code("_exit(0);")),
        "own_report": ("cheats", "other numbers", code("forge(0);", OWN_REPORT)),
        "before_main": ("cheats", "other numbers", code("", OWN_REPORT + "static const int early = (forge(0), 1);\n")),
        "report_without_a_fault": ("crashed", "exit code 1 before", code("forge(1);", NO_FAULT)),
        "report_with_half_a_fault": ("crashed", "exit code 1 before", code("forge(1);", HALF_A_FAULT)),
        "report_with_a_large_number": ("cheats", "other numbers", code("forge(0);", LARGE_NUMBER)),
        "global_variables": ("passed", "", code("++calls;", "int calls = 0;\nconst char* note = \"mine\";\n" + INCLUDES)),
        "long_name": ("cheats", "xxx", code("", LONG_NAME)),
        "overrides_check": ("cheats", "course::Check::equal", code("", OVERRIDES_CHECK)),
        "overrides_exit": ("cheats", "exit", code("", OVERRIDES_EXIT)),
        "reads_other": ("wrong", "yours", code(READS)),
        "includes_other": ("does not compile", "No such file", f'#include "{places["class"]}/solution/01_column_row_split/split.cpp"\n'),
        "includes_ours": ("does not compile", "No such file", '#include "chapters/01_column_row_split/split.cpp"\n'),
        "connects": ("passed", "", code(CONNECTS)),
        "writes": ("passed", "", code(WRITES)),
    }
