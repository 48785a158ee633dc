// Tests core/file_io.h and core/mapped_file.h: a file is written completely or not at all, and every error names the
// failed operation and its cause.
#include "core/file_io.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

#include <algorithm>
#include <stdexcept>

#include "core/mapped_file.h"
#include "core/temporary_path.h"
#include "tests/core/support.h"

namespace folio::core {
namespace {

namespace fs = std::filesystem;
using test::names_in;
using test::TempDir;

TEST(ReadTextFile, ReturnsBytesUnchanged) {
  const TempDir dir;
  const std::string bytes("a\r\nb\0c\xFF\n", 8);
  test::write_bytes(dir / "f", bytes);
  EXPECT_EQ(read_text_file(dir / "f"), bytes);
  test::write_bytes(dir / "empty", "");
  EXPECT_EQ(read_text_file(dir / "empty"), "");
}

TEST(ReadTextFile, RejectsFilesLargerThanTheLimit) {
  const TempDir dir;
  test::write_bytes(dir / "f", "12345");
  EXPECT_EQ(read_text_file(dir / "f", 5), "12345");
  EXPECT_ERROR(read_text_file(dir / "f", 4), (dir / "f").string() + " has 5 bytes");
}

TEST(ReadTextFile, RejectsMissingAndIrregularFiles) {
  const TempDir dir;
  EXPECT_ERROR(read_text_file(dir / "none"), "none: no such file");
  EXPECT_ERROR(read_text_file(dir.path()), "not a regular file");
}

TEST(AtomicWrite, KeepsTheOldFileUntilTheNewOneIsComplete) {
  const TempDir dir;
  test::write_bytes(dir / "f", "something longer");
  write_file_atomically(dir / "f", [&](OutputFile& out) {
    out.write("new");
    EXPECT_EQ(test::read_bytes(dir / "f"), "something longer");
    write_file_atomically(dir / "f", "by another writer");
    EXPECT_EQ(test::read_bytes(dir / "f"), "by another writer");
  });
  EXPECT_EQ(test::read_bytes(dir / "f"), "new");
  EXPECT_EQ(names_in(dir.path()), std::set<std::string>{"f"});
}

TEST(AtomicWrite, LeavesNoTemporaryFileAfterAnException) {
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
  EXPECT_EQ(names_in(dir.path()), std::set<std::string>{"old"});
}

TEST(AtomicWrite, ErrorsNameUnwritablePaths) {
  const TempDir dir;
  test::write_bytes(dir / "file", "x");
  EXPECT_ERROR(write_file_atomically(dir / "none" / "f", "x"), (dir / "none" / "f").string() + ": No such file");
  EXPECT_ERROR(write_file_atomically(dir / "file" / "f", "x"), "Not a directory");
  EXPECT_ERROR(write_file_atomically("/dev/null/f", "x"), "cannot write /dev/null/");
}

TEST(AtomicWrite, AcceptsRelativeNames) {
  const TempDir dir;
  const fs::path before = fs::current_path();
  fs::current_path(dir.path());
  EXPECT_NO_THROW(write_file_atomically("plain", "x"));
  fs::current_path(before);
  EXPECT_EQ(test::read_bytes(dir / "plain"), "x");
}

TEST(OutputFile, PadsWithZeros) {
  const TempDir dir;
  {
    OutputFile out(dir / "f");
    out.write("abc");
    EXPECT_EQ(out.offset(), 3U);
    out.pad_to(700);
    EXPECT_EQ(out.offset(), 700U);
    out.pad_to(10);  // no effect: the offset is already larger
    out.write("z");
    EXPECT_EQ(out.offset(), 701U);
    out.sync_and_close();
  }
  EXPECT_EQ(test::read_bytes(dir / "f"), "abc" + std::string(697, '\0') + "z");
}

TEST(OutputFile, PreservesTheOrderOfWrites) {
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

TEST(OutputFile, AppendsToAnExistingFile) {
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

TEST(AtomicWrite, RemovesOnlyTemporaryFilesOfKilledProcesses) {
  const TempDir dir;
  for (const char* name : {"f", ".f.tmp-1", ".f.tmp-12345", ".f.tmp-", ".f.tmp-1x", ".g.tmp-1", "f.tmp-1"}) {
    test::write_bytes(dir / name, "x");
  }
  remove_leftovers(dir / "f");
  EXPECT_EQ(names_in(dir.path()), (std::set<std::string>{".f.tmp-", ".f.tmp-1x", ".g.tmp-1", "f", "f.tmp-1"}));
  EXPECT_NO_THROW(remove_leftovers(dir / "none" / "f"));
}

// ---- Existing paths that are not regular files ----

struct stat status_of(const fs::path& path) {
  struct stat status {};
  EXPECT_EQ(::lstat(path.c_str(), &status), 0) << path;
  return status;
}

// Makes a device like /dev/null (minor 3) or /dev/full (7) in a test folder, so that no bug replaces the real one.
bool make_device(const fs::path& path, unsigned minor) {
  if (::mknod(path.c_str(), S_IFCHR | 0600, ::makedev(1, minor)) != 0) return false;
  const int fd = ::open(path.c_str(), O_WRONLY);
  if (fd >= 0) ::close(fd);
  return fd >= 0;
}

TEST(AtomicWrite, WritesADeviceDirectly) {
  const TempDir dir;
  if (!make_device(dir / "null", 3) || !make_device(dir / "full", 7)) GTEST_SKIP() << "devices cannot be made here";
  write_file_atomically(dir / "null", "x");
  EXPECT_ERROR(write_file_atomically(dir / "full", "x"), "full: No space left on device");
  EXPECT_TRUE(S_ISCHR(status_of(dir / "null").st_mode) && S_ISCHR(status_of(dir / "full").st_mode));
  EXPECT_EQ(names_in(dir.path()).size(), 2U);
}

TEST(AtomicWrite, WritesOnlyPipesThatHaveAReader) {
  const TempDir dir;
  ASSERT_EQ(::mkfifo((dir / "pipe").c_str(), 0600), 0);
  EXPECT_ERROR(write_file_atomically(dir / "pipe", "x"), "no process reads");
  const int reader = ::open((dir / "pipe").c_str(), O_RDONLY | O_NONBLOCK);
  write_file_atomically(dir / "pipe", "through");
  std::string read(100, '\0');
  read.resize(static_cast<size_t>(std::max<ssize_t>(::read(reader, read.data(), read.size()), 0)));
  ::close(reader);
  EXPECT_EQ(read, "through");
  EXPECT_TRUE(S_ISFIFO(status_of(dir / "pipe").st_mode));
  EXPECT_EQ(names_in(dir.path()).size(), 1U);
}

TEST(AtomicWrite, RejectsFoldersSocketsAndBlockDevices) {
  const TempDir dir;
  EXPECT_ERROR(write_file_atomically(dir.path(), "x"), "cannot write " + dir.path().string() + ": it is a folder");
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  const std::string name = (dir / "socket").string();
  ASSERT_LT(name.copy(address.sun_path, sizeof address.sun_path - 1), sizeof address.sun_path - 1);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_ERROR(write_file_atomically(dir / "socket", "x"), "it is a socket");
  ::close(fd);
  if (::mknod((dir / "block").c_str(), S_IFBLK | 0600, ::makedev(240, 99)) == 0) {
    EXPECT_ERROR(write_file_atomically(dir / "block", "x"), "it is a block device");
  }
}

TEST(AtomicWrite, FollowsLinks) {
  const TempDir dir;
  fs::create_directory(dir / "folder");
  test::write_bytes(dir / "folder" / "f", "old");
  fs::create_symlink("folder/f", dir / "relative");
  fs::create_symlink(dir / "relative", dir / "chain");
  fs::create_symlink("folder/new", dir / "nowhere");
  fs::create_symlink("loop", dir / "loop");
  write_file_atomically(dir / "chain", "by a chain");
  EXPECT_EQ(test::read_bytes(dir / "folder" / "f"), "by a chain");
  write_file_atomically(dir / "nowhere", "made");
  EXPECT_EQ(test::read_bytes(dir / "folder" / "new"), "made");
  EXPECT_ERROR(write_file_atomically(dir / "loop", "x"), "Too many levels");
  for (const char* link : {"relative", "chain", "nowhere", "loop"}) EXPECT_TRUE(fs::is_symlink(dir / link)) << link;
  EXPECT_EQ(names_in(dir / "folder").size(), 2U);
}

TEST(AtomicWrite, KeepsModeAndOwner) {
  const TempDir dir;
  test::write_bytes(dir / "f", "old");
  ASSERT_EQ(::chmod((dir / "f").c_str(), 0620), 0);
  const bool is_root = ::chown((dir / "f").c_str(), 12345, 23456) == 0;
  const struct stat before = status_of(dir / "f");
  write_file_atomically(dir / "f", "new");
  const struct stat after = status_of(dir / "f");
  EXPECT_EQ(after.st_mode, before.st_mode);
  EXPECT_TRUE(!is_root || (after.st_uid == 12345 && after.st_gid == 23456));
  EXPECT_NE(after.st_ino, before.st_ino) << "written in place";
}

TEST(AtomicWrite, AcceptsNamesOfMaximumLength) {
  const TempDir dir;
  const fs::path longest = dir / std::string(255, 'n');
  write_file_atomically(longest, "x");
  EXPECT_EQ(test::read_bytes(longest), "x");
  EXPECT_ERROR(write_file_atomically(dir / std::string(256, 'n'), "x"), "File name too long");
}

TEST(FolderWrite, CreatesAFolderOrFillsAnEmptyOne) {
  const TempDir dir;
  const auto write = [](const fs::path& folder) { write_file_atomically(folder / "f", "x"); };
  fs::create_directory(dir / "empty");
  fs::create_directory_symlink("empty", dir / "link");
  for (const char* name : {"new", "new/below", "link"}) {
    if (std::string_view(name) == "new/below") fs::remove_all(dir / "new");
    write_folder_atomically(dir / name, write);
    EXPECT_EQ(names_in(dir / name), std::set<std::string>{"f"}) << name;
  }
  EXPECT_TRUE(fs::is_symlink(dir / "link"));
  EXPECT_ERROR(write_folder_atomically(dir / "empty", write), "already exists");
  EXPECT_THROW(write_folder_atomically(dir / "failed", [](const fs::path&) { throw std::logic_error("failed"); }),
               std::logic_error);
  EXPECT_EQ(names_in(dir.path()).size(), 3U);  // new, empty and link; no temporary files
}

TEST(TemporaryPath, IsRemovedByDestructorAndSignals) {
  const TempDir dir;
  {
    const TemporaryPath file(dir / "file");
    test::write_bytes(file.path(), "x");
  }
  EXPECT_TRUE(fs::is_empty(dir.path()));
  TemporaryPath kept(dir / "kept");
  test::write_bytes(dir / "kept", "x");
  kept.release();
  const TemporaryPath file(dir / "file");
  const TemporaryPath folder(dir / "folder");
  test::write_bytes(file.path(), "x");
  fs::create_directory(folder.path());
  for (int i = 0; i < 300; ++i) test::write_bytes(folder.path() / std::to_string(i), "x");
  remove_temporary_paths();
  EXPECT_EQ(names_in(dir.path()), std::set<std::string>{"kept"});
}

TEST(SyncDirectory, NamesAMissingFolder) {
  const TempDir dir;
  EXPECT_NO_THROW(sync_directory(dir.path()));
  EXPECT_NO_THROW(sync_directory(""));
  EXPECT_ERROR(sync_directory(dir / "none"), "none: No such file");
}

TEST(MappedFile, StaysReadableAfterTheFileIsDeleted) {
  const TempDir dir;
  test::write_bytes(dir / "f", "mapped");
  const MappedFile file(dir / "f");
  fs::remove(dir / "f");
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()), "mapped");
  EXPECT_EQ(file.path(), dir / "f");
}

TEST(MappedFile, RejectsEmptyAndIrregularFiles) {
  const TempDir dir;
  test::write_bytes(dir / "empty", "");
  ASSERT_EQ(::mkfifo((dir / "pipe").c_str(), 0600), 0);
  EXPECT_ERROR(MappedFile(dir / "none"), "none: No such file");
  EXPECT_ERROR(MappedFile(dir / "empty"), "is an empty file");
  EXPECT_ERROR(MappedFile(dir.path()), "is not a regular file");
  EXPECT_ERROR(MappedFile(dir / "pipe"), "is not a regular file");  // doesn't wait for a writer
}

TEST(MappedFile, PathIsFoundByAddress) {
  const TempDir dir;
  test::write_bytes(dir / "f", "mapped");
  const std::byte* bytes = nullptr;
  {
    const MappedFile file(dir / "f");
    bytes = file.bytes().data();
    EXPECT_EQ(mapped_path_at(bytes + 5), (dir / "f").string());
    EXPECT_EQ(mapped_path_at(bytes - 1), nullptr);
  }
  EXPECT_EQ(mapped_path_at(bytes), nullptr);
}

}  // namespace
}  // namespace folio::core
