// Results of measurements. Each row is immediately printed as a line of a table and written as a line of JSON, so an
// interrupted run keeps its rows.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace folio::infer::gpu::bench {

using Record = nlohmann::ordered_json;

class Results {
 public:
  /// Opens `json_file` to append to; if empty, rows are only printed. Throws core::Error if it cannot be opened.
  explicit Results(const std::string& json_file);

  void add(const Record& row);

 private:
  std::ofstream json_;                ///< not open if rows are only printed
  std::vector<std::string> columns_;  ///< columns of the table that is being printed
};

}  // namespace folio::infer::gpu::bench
