// Results of measurements. Each row is immediately printed as a line of a table and written as a line of JSON, so an
// interrupted run keeps its rows.
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
  /// Opens `json_file` to append to; if empty, rows are only printed. Throws core::Error if it cannot be opened.
  explicit Results(const std::string& json_file);

  void add(const Record& row);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  std::unique_ptr<std::FILE, Close> json_;
  std::vector<std::string> columns_;  ///< columns of the table that is being printed
};

}  // namespace folio::infer::gpu::bench
