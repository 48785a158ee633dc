// --draft-model: a second, smaller model that guesses what --speculate tries.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "apps/machines.h"
#include "core/weights.h"
#include "data/tokenizers/tokenizer.h"
#include "infer/engine/draft_model.h"

namespace folio::apps {

/// After --speculate, which it needs.
void add_draft_flag(CLI::App& app, std::string& file);

/// The model with what drafts by it.
struct Draft {
  Draft(core::StoredModel stored, const core::StoredModel& target, infer::Machine& machine,
        const infer::CacheOptions& cache)
      : model(std::move(stored)), drafter(model, target, machine, cache) {}

  core::StoredModel model;
  infer::DraftModel drafter;
};

/// The model in `file` on the last of the machines, before the model that it drafts for takes its memory; null where
/// no file is named. Throws core::Error if it can't be run, or if its tokens are not those of `tokenizer`.
[[nodiscard]] std::unique_ptr<Draft> load_draft(const std::string& file, const core::StoredModel& target,
                                                const data::Tokenizer& tokenizer, const Machines& machines,
                                                infer::CacheOptions cache);

}  // namespace folio::apps
