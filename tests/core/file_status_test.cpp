// Tests core/file_status.h: the error for a path of any kind, such as a folder or a pipe, is one line with the path.
#include "core/file_status.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>

#include "core/file_io.h"
#include "core/mapped_file.h"
#include "tests/core/support.h"

namespace folio::core {
namespace {

namespace fs = std::filesystem;
using test::TempDir;

TEST(FileStatus, FollowsLinksToFilesAndFolders) {
  const TempDir dir;
  test::write_bytes(dir / "file", "12345");
  ASSERT_EQ(::mkfifo((dir / "pipe").c_str(), 0600), 0);
  fs::create_symlink("file", dir / "link");
  fs::create_symlink("none", dir / "nowhere");
  EXPECT_TRUE(is_plain_file(dir / "link") && !is_folder(dir / "link"));
  EXPECT_TRUE(is_folder(dir.path()) && !is_plain_file(dir.path()));
  EXPECT_TRUE(path_exists(dir / "pipe") && !is_plain_file(dir / "pipe"));
  EXPECT_FALSE(path_exists(dir / "nowhere") || path_exists(dir / "none") || path_exists(dir / "file" / "below"));
  EXPECT_EQ(size_of_file(dir / "link"), 5U);
  EXPECT_ERROR(size_of_file(dir / "pipe"), "is not a regular file");
  EXPECT_ERROR(size_of_file(dir.path()), "is not a regular file");
  EXPECT_EQ(without_links(dir / "." / "link"), without_links(dir / "file"));
}

TEST(FileStatus, PlainNamesOfFoldersKeepTheirDots) {
  const TempDir dir;
  fs::create_directory(dir / "Model-1.5B");
  for (const char* name : {"Model-1.5B", "Model-1.5B/", "Model-1.5B/.", "Model-1.5B.gguf"})
    EXPECT_EQ(plain_name(dir / name), "Model-1.5B");
}

TEST(FileStatus, ErrorsNameThePathAndTheReason) {
  const TempDir dir;
  fs::create_symlink("loop", dir / "loop");
  using Call = void (*)(const fs::path&);
  const std::array<Call, 7> calls{[](const fs::path& p) { static_cast<void>(path_exists(p)); },
                                  [](const fs::path& p) { static_cast<void>(size_of_file(p)); },
                                  [](const fs::path& p) { static_cast<void>(without_links(p)); },
                                  [](const fs::path& p) { make_folders(p / "x"); },
                                  [](const fs::path& p) { static_cast<void>(read_text_file(p)); },
                                  [](const fs::path& p) { write_file_atomically(p, "x"); },
                                  [](const fs::path& p) { static_cast<void>(MappedFile(p)); }};
  for (const Call call : calls) {
    EXPECT_ERROR(call(dir / "loop"), "loop");
    EXPECT_ERROR(call(dir / std::string(300, 'n')), "File name too long");
    EXPECT_ERROR(call(dir / std::string("a\0b", 3)), "NUL byte");
  }
  EXPECT_EQ(fs::directory_iterator(dir.path())->path().filename(), "loop");
}

TEST(FileStatus, ListsRegularFilesRecursively) {
  const TempDir dir;
  fs::create_directories(dir / "b" / "c");
  fs::create_directories(dir / ".git" / "c");
  for (const char* name : {"b/c/2", "a", "b/1", ".hidden", ".git/3", ".git/c/4"}) test::write_bytes(dir / name, "x");
  ASSERT_EQ(::mkfifo((dir / "pipe").c_str(), 0600), 0);
  fs::create_symlink("none", dir / "nowhere");
  EXPECT_EQ(files_below(dir.path()), (std::vector<fs::path>{dir / "a", dir / "b/1", dir / "b/c/2"}));
  EXPECT_ERROR(files_below(dir / "none"), "cannot read the folder");
  fs::create_symlink("loop", dir / "loop");
  EXPECT_ERROR(files_below(dir.path()), "loop");
}

}  // namespace
}  // namespace folio::core
