// Tests core/paths.h: FOLIO_HOME replaces the source tree as the folder of runs/ and data/, and the newest model is
// found.
#include "core/paths.h"

#include <gtest/gtest.h>

#include <chrono>

#include "tests/core/support.h"

namespace folio::core {
namespace {

namespace fs = std::filesystem;
using test::ScopedEnv;
using test::TempDir;

void make_run(const fs::path& home, const std::string& name, int age_in_minutes) {
  fs::create_directories(home / "runs" / name);
  const fs::path model = home / "runs" / name / "model.gguf";
  test::write_bytes(model, "x");
  fs::last_write_time(model, fs::file_time_type::clock::now() - std::chrono::minutes(age_in_minutes));
}

TEST(Paths, ReadsTheEnvironmentVariable) {
  const ScopedEnv env("FOLIO_HOME", "/some/where");
  EXPECT_EQ(folio_home(), "/some/where");
  EXPECT_EQ(runs_directory(), "/some/where/runs");
  EXPECT_EQ(data_directory(), "/some/where/data");
}

TEST(Paths, DefaultsToAnExistingFolder) {
  for (const char* unset : {static_cast<const char*>(nullptr), ""}) {
    const ScopedEnv env("FOLIO_HOME", unset);
    EXPECT_TRUE(fs::is_directory(folio_home()));
    EXPECT_EQ(runs_directory(), folio_home() / "runs");
  }
}

TEST(Paths, NewestModelIsTheLastWritten) {
  const TempDir home;
  const ScopedEnv env("FOLIO_HOME", home.path().c_str());
  make_run(home.path(), "a", 30);
  make_run(home.path(), "b", 10);
  make_run(home.path(), "c", 20);
  fs::create_directories(home / "runs" / "unfinished");
  test::write_bytes(home / "runs" / "a-file", "x");
  EXPECT_EQ(newest_model(), home / "runs" / "b" / "model.gguf");
  make_run(home.path(), "a", 5);
  EXPECT_EQ(newest_model(), home / "runs" / "a" / "model.gguf");
}

TEST(Paths, MissingModelErrorSuggestsTraining) {
  const TempDir home;
  const ScopedEnv env("FOLIO_HOME", home.path().c_str());
  EXPECT_ERROR(newest_model(), "./train tinyshakespeare");
  fs::create_directories(home / "runs" / "unfinished");
  EXPECT_ERROR(newest_model(), (home / "runs").string());
}

}  // namespace
}  // namespace folio::core
