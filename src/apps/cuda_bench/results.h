// What was measured: each row is printed as a line of a table, and written as a JSON object of a line, at once, so that
// a run that is cut off leaves what it had.
#pragma once

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace folio::infer::gpu::bench {

using Record = nlohmann::ordered_json;

class Results {
 public:
  /// Appends to the file, or only prints if `json_file` is empty. Throws core::Error if it can't be written.
  explicit Results(const std::string& json_file);

  void add(const Record& row);
  /// A line for people.
  void note(const std::string& text);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  std::unique_ptr<std::FILE, Close> json_;
  std::vector<std::string> columns_;  ///< of the table that is being printed
};

}  // namespace folio::infer::gpu::bench
