// Implements main() of test tools that read a JSON list of requests and print the list of their results.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "core/error.h"
#include "core/file_io.h"

namespace folio::data::test {

/// Reads a JSON list of requests from the file argv[1] and prints the list of answer(request), in which a core::Error
/// becomes {"error": …}. Returns the exit code.
template <typename Json, typename Answer>
int answer_requests(int argc, char** argv, const std::string& tool, Answer&& answer) {
  try {
    core::require(argc == 2, "usage: {} FILE", tool);
    Json answers = Json::array();
    for (const auto& request : Json::parse(core::read_text_file(argv[1]))) {
      try {
        answers.push_back(answer(request));
      } catch (const core::Error& error) {
        answers.push_back({{"error", error.what()}});
      }
    }
    fmt::print("{}\n", answers.dump());
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}

}  // namespace folio::data::test
