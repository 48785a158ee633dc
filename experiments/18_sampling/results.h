// Statistics of the outputs of every setting, for the table, the picture and the checks.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "experiments/18_sampling/texts.h"
#include "experiments/common/report.h"

namespace folio::experiments {

struct Setting {
  std::string name;
  infer::SamplerOptions options;
};

class Results {
 public:
  /// Each seed contributes `texts_of_a_seed` outputs; add a setting's outputs seed by seed.
  explicit Results(size_t texts_of_a_seed) : texts_of_a_seed_(texts_of_a_seed) {}

  void add(const std::string& name, const std::vector<Counted>& texts);

  /// Returns the value of each output.
  [[nodiscard]] std::vector<double> all(const std::string& name, double Counted::*number) const;
  [[nodiscard]] double mean(const std::string& name, double Counted::*number) const;
  [[nodiscard]] double least(const std::string& name, double Counted::*number) const;
  /// Returns the mean over each seed's outputs.
  [[nodiscard]] std::vector<double> by_seed(const std::string& name, double Counted::*number) const;
  /// Returns by_seed of setting a minus setting b.
  [[nodiscard]] std::vector<double> gap(const std::string& a, const std::string& b, double Counted::*number) const;
  /// Returns the number of tokens that differ from the textbook implementation's.
  [[nodiscard]] int64_t n_other(const std::string& name) const;

  /// Prints a row for the original text and for each setting, and draws the settings without truncation by temperature.
  void show(Report& report, const std::string& book, const std::vector<Setting>& settings) const;

 private:
  size_t texts_of_a_seed_;
  std::map<std::string, std::vector<Counted>> texts_;
};

}  // namespace folio::experiments
