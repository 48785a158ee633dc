// Reads a model or a tokenizer after each truncation of one of its files, all in one process. Prints a line with the
// length of each truncated file that was accepted.
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <string_view>

#include "core/error.h"
#include "core/formats/model_files.h"
#include "data/tokenizers/tokenizer_files.h"

namespace {

using namespace folio;
namespace fs = std::filesystem;

void read(std::string_view what, const fs::path& path, int64_t vocab_size) {
  if (what == "model") static_cast<void>(core::read_model(path));
  if (what == "tokenizer") static_cast<void>(data::load_tokenizer(path, vocab_size));
}

// Truncates `file`, a part of the model or tokenizer at `path`, at every length, and prints the accepted lengths.
void cut_at_every_byte(std::string_view what, const fs::path& path, const fs::path& file, int64_t vocab_size) {
  for (uintmax_t size = fs::file_size(file); size-- > 0;) {
    fs::resize_file(file, size);
    try {
      read(what, path, vocab_size);
      fmt::print("{}\n", size);
    } catch (const core::Error& error) {
      const std::string message = error.what();
      const bool named = message.find(file.filename().string()) != std::string::npos;
      core::require(named && message.find('\n') == std::string::npos, "cut to {} bytes: {}", size, message);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    core::require(argc == 5, "usage: truncation_tool model|tokenizer PATH FILE VOCAB_SIZE; FILE is cut");
    read(argv[1], argv[2], std::atoll(argv[4]));  // throws if the whole file is invalid
    cut_at_every_byte(argv[1], argv[2], argv[3], std::atoll(argv[4]));
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "truncation_tool: {}\n", error.what());
    return 1;
  }
}
