// What was counted on the texts of every setting, for the table, the picture and the claims.
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
  /// Every seed has so many texts. Texts of a setting are added seed by seed.
  explicit Results(size_t texts_of_a_seed) : texts_of_a_seed_(texts_of_a_seed) {}

  void add(const std::string& name, const std::vector<Counted>& texts);

  /// Of each text.
  [[nodiscard]] std::vector<double> all(const std::string& name, double Counted::*number) const;
  [[nodiscard]] double mean(const std::string& name, double Counted::*number) const;
  [[nodiscard]] double least(const std::string& name, double Counted::*number) const;
  /// Means of each seed's texts.
  [[nodiscard]] std::vector<double> by_seed(const std::string& name, double Counted::*number) const;
  /// The same of two settings, a minus b.
  [[nodiscard]] std::vector<double> gap(const std::string& a, const std::string& b, double Counted::*number) const;
  /// Tokens that are not the textbook's draw.
  [[nodiscard]] int64_t n_other(const std::string& name) const;

  /// A row for the book and each setting, and the picture of those that have no cut, by temperature.
  void show(Report& report, const std::string& book, const std::vector<Setting>& settings) const;

 private:
  size_t texts_of_a_seed_;
  std::map<std::string, std::vector<Counted>> texts_;
};

}  // namespace folio::experiments
