#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "experiments/28_forms/mass_picture.h"
#include "experiments/28_forms/parts.h"

namespace folio::experiments {
namespace {

// A regular expression with only six matches, so that their exact probabilities can be compared with masked sampling.
const std::string kFew = R"((the (zebra|gnu|king)|my (lord|love|gnu))\.)";
const std::vector<std::string> kTexts{"the zebra.", "the gnu.", "the king.", "my lord.", "my love.", "my gnu."};
constexpr const char* kFewPrompt = "\n\nROMEO:\nGood morrow to ";

struct Exact {
  double p;       // the model's probability of the text
  double mass;    // product, over steps, of the total probability of the allowed tokens
  double masked;  // p / mass: the text's probability under masked sampling
};

}  // namespace

void bias(Report& report, const ReadersModel& reader, infer::Engine& engine) {
  const auto form = form_for(*reader.tokenizer, infer::forms::FormOptions::Kind::Regex, kFew);
  const Tokens prompt = reader.tokenizer->encode(kFewPrompt);
  std::map<std::string, Exact> exact;
  double p_form = 0.0, sum_masked = 0.0;
  for (const std::string& text : kTexts) {
    const auto steps = walk(engine, *reader.tokenizer, *form, prompt, reader.tokenizer->encode(text));
    const double p = std::exp(log_product(steps, &Step::p)), mass = std::exp(log_product(steps, &Step::mass));
    exact[text] = {.p = p, .mass = mass, .masked = p / mass};
    p_form += p;
    sum_masked += p / mass;
  }
  const size_t n = report.short_form() ? 400 : 4000;
  const std::vector<Tokens> prompts(n, prompt);
  const auto results =
      drawn(engine, *reader.tokenizer, prompts, {.form = form, .max_tokens = 16, .seed = 100'000 * report.seed()});
  std::map<std::string, size_t> count;
  double weight = 0.0;
  for (const auto& result : results) {
    ++count[result.text];
    weight += exact.at(result.text).mass;
  }
  Report::Rows rows;
  BarsPicture picture{.title = "Six outputs, and how often each is drawn",
                      .subtitle = "masked sampling does not draw from the model's distribution of the texts that fit",
                      .names = {"the model, given that the text fits", "masked: p / (product of m)", "masked: drawn",
                                "drawn, weighted with the product of m"}};
  double apart = 0.0, worst = 0.0, variance = 0.0;
  for (const std::string& text : kTexts) {
    const Exact& e = exact.at(text);
    const double bayes = e.p / p_form;
    const double drawn_share = ratio(count[text], n);
    const double weighted = static_cast<double>(count[text]) * e.mass / weight;
    apart += std::abs(bayes - e.masked) / 2;
    worst =
        larger(worst, std::abs(drawn_share - e.masked) / std::sqrt(e.masked * (1 - e.masked) / static_cast<double>(n)));
    variance += e.masked * (e.mass - p_form) * (e.mass - p_form);
    rows.push_back({text, e.p, e.mass, bayes, e.masked, drawn_share, weighted});
    picture.rows.push_back({text, {bayes, e.masked, drawn_share, weighted}});
  }
  report.table("six outputs",
               {"output", "p", "product of m", "p given that it fits", "masked", "drawn", "drawn, weighted"}, rows);
  report.picture("bias.svg", picture);
  const double off = std::abs(weight / static_cast<double>(n) - p_form) / std::sqrt(variance / static_cast<double>(n));
  report.value("p of the form", p_form);
  report.value("mean weight", weight / static_cast<double>(n));
  report.check_below("the masked probabilities add up to 1, up to", std::abs(sum_masked - 1.0), 1e-5);
  report.check_above("distance of masked sampling from the model given the form", apart, 0.1);
  report.check_below("drawn against p / (product of m), in standard errors", worst, 5.0);
  report.check_below("mean weight against the form's probability, in standard errors", off, 5.0);
}

}  // namespace folio::experiments
