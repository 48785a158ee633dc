#include "data/corpus.h"

#include <spawn.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "core/file_io.h"
#include "core/file_status.h"
#include "core/paths.h"

extern char** environ;

namespace folio::data {
namespace {

namespace fs = std::filesystem;

void fetch_tinyshakespeare(const fs::path& directory) {
  const std::string script = (core::folio_home() / "scripts" / "get_tinyshakespeare.py").string();
  core::require(core::path_exists(script), "{} is missing, and so is {}, which downloads it",
                (directory / "input.txt").string(), script);
  const std::string out = directory.string();
  std::array<const char*, 5> arguments{"python3", script.c_str(), "--out", out.c_str(), nullptr};
  pid_t child = 0;
  const int error = ::posix_spawnp(&child, "python3", nullptr, nullptr, const_cast<char**>(arguments.data()), environ);
  core::require(error == 0, "cannot run python3 {}: {}", script, std::strerror(error));
  int status = 0;
  pid_t ended = 0;
  do {
    ended = ::waitpid(child, &status, 0);
  } while (ended < 0 && errno == EINTR);
  core::require(ended == child, "cannot wait for python3 {}: {}; run it yourself first", script, std::strerror(errno));
  core::require(WIFEXITED(status) && WEXITSTATUS(status) == 0,
                "cannot download TinyShakespeare (see above); save it as {} yourself",
                (directory / "input.txt").string());
}

template <typename Tokens>
SplitsOf<Tokens> split(Tokens tokens, double validation_fraction, double test_fraction) {
  core::require(validation_fraction > 0.0 && test_fraction >= 0.0 && validation_fraction + test_fraction < 1.0,
                "validation and test fractions of {} and {} leave nothing to train on", validation_fraction,
                test_fraction);
  const auto border = [&](double fraction) {
    // The offset compensates for rounding: a product with a fraction such as 0.9 can fall just short of an integer.
    return static_cast<size_t>(std::floor(static_cast<double>(tokens.size()) * fraction + 1e-6));
  };
  const size_t train_end = border(1.0 - validation_fraction - test_fraction);
  const size_t validation_end = test_fraction == 0.0 ? tokens.size() : border(1.0 - test_fraction);
  SplitsOf<Tokens> splits{.train = tokens.first(train_end),
                          .validation = tokens.subspan(train_end, validation_end - train_end),
                          .test = tokens.subspan(validation_end)};
  core::require(
      splits.train.size() > 1 && splits.validation.size() > 1 && (test_fraction == 0.0 || splits.test.size() > 1),
      "a text of {} tokens is too short for splits of {:g} / {:g} / {:g}", tokens.size(),
      1.0 - validation_fraction - test_fraction, validation_fraction, test_fraction);
  return splits;
}

}  // namespace

std::string dataset_name(const std::string& dataset) {
  if (dataset == "tinyshakespeare") return dataset;
  const std::string name = core::normal_path(dataset).stem().string();  // ".." and "texts/" have the folder's own name
  return name.empty() ? "text" : name;                                  // "/" has no name
}

fs::path path_of_dataset(const std::string& dataset) {
  if (dataset == "tinyshakespeare") {
    fs::path path = core::data_directory() / dataset / "input.txt";
    if (!core::path_exists(path)) fetch_tinyshakespeare(path.parent_path());
    return path;
  }
  core::require(core::path_exists(dataset), "the dataset {} is neither \"tinyshakespeare\" nor an existing file",
                core::printable(dataset));
  return dataset;
}

Corpus load_corpus(const std::string& dataset) {
  Corpus corpus{.path = path_of_dataset(dataset), .text = {}};
  corpus.text = core::read_text_file(corpus.path);
  core::require(!corpus.text.empty(), "the dataset {} is empty", corpus.path.string());
  return corpus;
}

Splits split_tokens(std::span<const int32_t> tokens, double validation_fraction, double test_fraction) {
  return split<std::span<const int32_t>>(tokens, validation_fraction, test_fraction);
}

SplitsOf<TokenView> split_view(TokenView tokens, double validation_fraction, double test_fraction) {
  return split<TokenView>(tokens, validation_fraction, test_fraction);
}

}  // namespace folio::data
