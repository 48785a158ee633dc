// Laws of core/file_io.h and core/mapped_file.h: a file is written completely or not at all, and every error says what
// failed and why.
#include "core/file_io.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "core/mapped_file.h"
#include "tests/core/support.h"

namespace folio::core {
namespace {

namespace fs = std::filesystem;
using test::TempDir;

std::vector<std::string> names_in(const fs::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) names.push_back(entry.path().filename().string());
  return names;
}

TEST(ReadTextFile, ReturnsTheBytesAsTheyAre) {
  const TempDir dir;
  const std::string bytes("a\r\nb\0c\xFF\n", 8);
  test::write_bytes(dir / "f", bytes);
  EXPECT_EQ(read_text_file(dir / "f"), bytes);
  test::write_bytes(dir / "empty", "");
  EXPECT_EQ(read_text_file(dir / "empty"), "");
}

TEST(ReadTextFile, RefusesMoreThanTheLimit) {
  const TempDir dir;
  test::write_bytes(dir / "f", "12345");
  EXPECT_EQ(read_text_file(dir / "f", 5), "12345");
  EXPECT_ERROR(read_text_file(dir / "f", 4), (dir / "f").string() + " has 5 bytes");
}

TEST(ReadTextFile, NamesWhatIsMissingOrNotAFile) {
  const TempDir dir;
  EXPECT_ERROR(read_text_file(dir / "none"), "none: no such file");
  EXPECT_ERROR(read_text_file(dir.path()), "not a regular file");
}

TEST(AtomicWrite, AppearsWholeUnderItsName) {
  const TempDir dir;
  write_file_atomically(dir / "f", "hello");
  EXPECT_EQ(test::read_bytes(dir / "f"), "hello");
  EXPECT_EQ(names_in(dir.path()), std::vector<std::string>{"f"});
}

TEST(AtomicWrite, ReplacesTheOldFile) {
  const TempDir dir;
  test::write_bytes(dir / "f", "something longer");
  write_file_atomically(dir / "f", "new");
  EXPECT_EQ(test::read_bytes(dir / "f"), "new");
  EXPECT_EQ(names_in(dir.path()).size(), 1U);
}

TEST(AtomicWrite, KeepsTheOldFileUntilTheNewOneIsWhole) {
  const TempDir dir;
  test::write_bytes(dir / "f", "old");
  write_file_atomically(dir / "f", [&](OutputFile& out) {
    out.write("new");
    EXPECT_EQ(test::read_bytes(dir / "f"), "old");
  });
  EXPECT_EQ(test::read_bytes(dir / "f"), "new");
}

TEST(AtomicWrite, LeavesNothingBehindOnAnException) {
  const TempDir dir;
  const auto interrupted = [](OutputFile& out) {
    out.write("half");
    throw std::logic_error("interrupted");
  };
  EXPECT_THROW(write_file_atomically(dir / "new", interrupted), std::logic_error);
  EXPECT_TRUE(fs::is_empty(dir.path()));
  test::write_bytes(dir / "old", "old");
  EXPECT_THROW(write_file_atomically(dir / "old", interrupted), std::logic_error);
  EXPECT_EQ(test::read_bytes(dir / "old"), "old");
  EXPECT_EQ(names_in(dir.path()), std::vector<std::string>{"old"});
}

TEST(AtomicWrite, LeavesNothingBehindWhereTheNameIsTaken) {
  const TempDir dir;
  fs::create_directories(dir / "f" / "inside");
  EXPECT_ERROR(write_file_atomically(dir / "f", "x"), "cannot write " + (dir / "f").string());
  EXPECT_EQ(names_in(dir.path()), std::vector<std::string>{"f"});
}

TEST(AtomicWrite, NamesAPathThatCannotBeWritten) {
  const TempDir dir;
  test::write_bytes(dir / "file", "x");
  EXPECT_ERROR(write_file_atomically(dir / "none" / "f", "x"), "No such file or directory");
  EXPECT_ERROR(write_file_atomically(dir / "file" / "f", "x"), "Not a directory");
  EXPECT_ERROR(write_file_atomically("/dev/null/f", "x"), "cannot write /dev/null/");
}

TEST(AtomicWrite, TakesANameInTheWorkingDirectory) {
  const TempDir dir;
  const fs::path before = fs::current_path();
  fs::current_path(dir.path());
  EXPECT_NO_THROW(write_file_atomically("plain", "x"));
  fs::current_path(before);
  EXPECT_EQ(test::read_bytes(dir / "plain"), "x");
}

TEST(OutputFile, PadsWithZeroBytesAndCountsThem) {
  const TempDir dir;
  {
    OutputFile out(dir / "f");
    out.write("abc");
    EXPECT_EQ(out.offset(), 3U);
    out.pad_to(700);
    EXPECT_EQ(out.offset(), 700U);
    out.pad_to(10);  // already past it
    out.write("z");
    EXPECT_EQ(out.offset(), 701U);
    out.sync_and_close();
  }
  EXPECT_EQ(test::read_bytes(dir / "f"), "abc" + std::string(697, '\0') + "z");
}

TEST(OutputFile, KeepsTheOrderOfSmallAndLargeWrites) {
  const TempDir dir;
  std::string expected;
  {
    OutputFile out(dir / "f");
    for (size_t size : {0U, 1U, 1000U, 65535U, 1U, 65536U, 3U, 65537U, 200000U, 7U}) {
      const std::string piece(size, static_cast<char>('a' + expected.size() % 26));
      out.write(piece);
      expected += piece;
      EXPECT_EQ(out.offset(), expected.size());
    }
    out.sync_and_close();
  }
  EXPECT_EQ(test::read_bytes(dir / "f"), expected);
}

TEST(OutputFile, AppendsBehindWhatIsThere) {
  const TempDir dir;
  test::write_bytes(dir / "f", "first\n");
  {
    OutputFile out(dir / "f", OutputFile::Mode::Append);
    out.write("second\n");
    EXPECT_EQ(test::read_bytes(dir / "f"), "first\n");
    out.flush();
    EXPECT_EQ(test::read_bytes(dir / "f"), "first\nsecond\n");
    out.write("lost with the object");
  }
  EXPECT_EQ(test::read_bytes(dir / "f"), "first\nsecond\n");
}

TEST(AtomicWrite, ErrorsNameTheFinalPath) {
  const TempDir dir;
  EXPECT_ERROR(write_file_atomically(dir / "none" / "f", "x"), (dir / "none" / "f").string() + ": No such file");
}

TEST(AtomicWrite, LeftoversOfKilledProcessesAreRemovedAndNothingElse) {
  const TempDir dir;
  for (const char* name : {"f", ".f.tmp-1", ".f.tmp-12345", ".f.tmp-", ".f.tmp-1x", ".g.tmp-1", "f.tmp-1"}) {
    test::write_bytes(dir / name, "x");
  }
  remove_leftovers(dir / "f");
  auto names = names_in(dir.path());
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{".f.tmp-", ".f.tmp-1x", ".g.tmp-1", "f", "f.tmp-1"}));
  EXPECT_NO_THROW(remove_leftovers(dir / "none" / "f"));
}

TEST(OutputFile, ReportsAFullDisk) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "this machine has no /dev/full";
  OutputFile out("/dev/full");
  EXPECT_ERROR(
      [&] {
        out.write(std::string(1 << 20, 'x'));
        out.sync_and_close();
      }(),
      "cannot write /dev/full: No space left on device");
}

TEST(SyncDirectory, NamesAFolderThatIsNotThere) {
  const TempDir dir;
  EXPECT_NO_THROW(sync_directory(dir.path()));
  EXPECT_NO_THROW(sync_directory(""));
  EXPECT_ERROR(sync_directory(dir / "none"), "none: No such file");
}

TEST(MappedFile, ShowsTheBytesAndOutlivesTheName) {
  const TempDir dir;
  test::write_bytes(dir / "f", "mapped");
  const MappedFile file(dir / "f");
  fs::remove(dir / "f");
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()), "mapped");
  EXPECT_EQ(file.path(), dir / "f");
}

TEST(MappedFile, MovesWithoutMovingTheBytes) {
  const TempDir dir;
  test::write_bytes(dir / "f", "first");
  test::write_bytes(dir / "g", "second");
  MappedFile a(dir / "f");
  const std::byte* first = a.bytes().data();
  MappedFile b(std::move(a));
  EXPECT_EQ(b.bytes().data(), first);
  MappedFile c(dir / "g");
  c = std::move(b);
  EXPECT_EQ(c.bytes().data(), first);
  EXPECT_EQ(c.bytes().size(), 5U);
  EXPECT_EQ(c.bytes()[4], std::byte{'t'});
}

TEST(MappedFile, RefusesWhatIsNotANonEmptyRegularFile) {
  const TempDir dir;
  test::write_bytes(dir / "empty", "");
  ASSERT_EQ(::mkfifo((dir / "pipe").c_str(), 0600), 0);
  EXPECT_ERROR(MappedFile(dir / "none"), "none: No such file");
  EXPECT_ERROR(MappedFile(dir / "empty"), "is an empty file");
  EXPECT_ERROR(MappedFile(dir.path()), "is not a regular file");
  EXPECT_ERROR(MappedFile(dir / "pipe"), "is not a regular file");  // without waiting for a writer
}

}  // namespace
}  // namespace folio::core
