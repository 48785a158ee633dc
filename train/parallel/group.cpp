#include "train/parallel/group.h"

#include <ATen/record_function.h>
#include <fmt/ranges.h>
#include <torch/utils.h>

#include <algorithm>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <utility>

#include "train/parallel/backend.h"

namespace folio::train::parallel {
namespace {

using c10d::ProcessGroup;
using torch::Tensor;
using Work = c10::intrusive_ptr<c10d::Work>;

int64_t bytes_of(const Tensor& t) { return static_cast<int64_t>(t.nbytes()); }

// c10d tells a reason by its text alone.
RankLost lost(const std::string& what, const std::exception& error) {
  const std::string why = error.what();
  const bool late = why.find("imed out") != std::string::npos || why.find("imeout") != std::string::npos;
  return RankLost(fmt::format("{}: {} ({})", what,
                              late ? "a rank did not come in time" : "the connection to a rank is lost",
                              core::printable(why.substr(0, why.find('\n')), 160)));
}

// What is only moved is moved as bytes: [rows, bytes of a row].
Tensor as_bytes(const Tensor& t) { return (t.dim() == 1 ? t.unsqueeze(1) : t.flatten(1)).view(torch::kByte); }

// How often Gloo's binomial tree sends from the rank that is `place` behind the root.
int64_t sends_of_broadcast(int64_t place, int64_t n) {
  int64_t top = 1, sends = 0;
  while (top < n) top *= 2;
  // Rank `place` gets it over the lowest bit that it has, and sends over the lower ones.
  for (int64_t bit = place == 0 ? top / 2 : (place & -place) / 2; bit > 0; bit /= 2) sends += place + bit < n ? 1 : 0;
  return sends;
}

}  // namespace

Pending::Pending(Work work, std::string what) : work_(std::move(work)), what_(std::move(what)) {}
Pending::~Pending() = default;
Pending::Pending(Pending&&) noexcept = default;
Pending& Pending::operator=(Pending&&) noexcept = default;

void Pending::wait() {
  const Work work = std::exchange(work_, {});
  if (!work) return;
  RECORD_FUNCTION("folio::wait", {});
  try {
    work->wait();
  } catch (const std::exception& error) {
    throw lost(what_, error);
  }
}

Group::Group(const c10::intrusive_ptr<c10d::Store>& store, std::string name, std::vector<int64_t> ranks, int64_t rank,
             std::chrono::milliseconds timeout)
    : name_(std::move(name)), ranks_(std::move(ranks)) {
  const auto place = std::find(ranks_.begin(), ranks_.end(), rank);
  core::require(place != ranks_.end(), "rank {} is none of {}", rank, name_);
  index_ = place - ranks_.begin();
  if (size() == 1) return;
  const auto own = c10::make_intrusive<c10d::PrefixStore>(name_, store);
  const auto key = [](int64_t r) { return fmt::format("here {}", r); };
  own->set(key(rank), std::vector<uint8_t>{1});
  const auto until = std::chrono::steady_clock::now() + timeout;
  std::vector<int64_t> missing;
  for (const int64_t other : ranks_) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    try {
      own->wait({key(other)}, std::max(left, std::chrono::milliseconds(1)));
    } catch (const std::exception&) {
      missing.push_back(other);
    }
  }
  if (!missing.empty()) {
    throw RankLost(fmt::format("{}: rank {} did not come within {} s", name_, fmt::join(missing, ", "),
                               static_cast<double>(timeout.count()) / 1000.0));
  }
  try {
    group_ = connect(own, index_, size(), timeout);
  } catch (const std::exception& error) {
    throw lost(name_ + " connect", error);
  }
}

Group::~Group() = default;

Pending Group::begin(const char* what, int64_t bytes, const std::function<Work()>& call) {
  const std::string where = fmt::format("{}, {}", name_, what);
  bytes_sent_ += bytes;
  try {
    return {call(), where};
  } catch (const std::exception& error) {  // a connection that is known to be lost
    throw lost(where, error);
  }
}

Pending Group::begin_sum(Tensor t) {
  if (size() == 1) return {};
  core::require(t.is_contiguous(), "{}, sum: the tensor is not contiguous", name_);
  // A ring: each part of n goes round once to be summed, and once to be known.
  return begin("sum", 2 * bytes_of(t) * (size() - 1) / size(), [&] {
    std::vector<Tensor> tensors{t.detach()};
    return group_->allreduce(tensors);
  });
}

void Group::sum(Tensor t) {
  if (size() == 1) return;
  Tensor whole = t.detach().contiguous();
  begin_sum(whole).wait();
  if (!whole.is_alias_of(t)) t.detach().copy_(whole);
}

void Group::largest(Tensor t) {
  if (size() == 1) return;
  Tensor whole = t.detach().contiguous();
  begin("largest", 2 * bytes_of(t) * (size() - 1) / size(), [&] {
    std::vector<Tensor> tensors{whole};
    c10d::AllreduceOptions options;
    options.reduceOp = c10d::ReduceOp::MAX;
    return group_->allreduce(tensors, options);
  }).wait();
  if (!whole.is_alias_of(t)) t.detach().copy_(whole);
}

void Group::sum_at(Tensor t, int64_t index) {
  if (size() == 1) return;
  Tensor whole = t.detach().contiguous();
  // A ring sums the parts; then each rank sends its part to the one that wants them.
  const int64_t parts = size() - 1 + (index_ == index ? 0 : 1);
  begin("sum at one rank", bytes_of(t) * parts / size(), [&] {
    std::vector<Tensor> tensors{whole};
    c10d::ReduceOptions options;
    options.rootRank = index;
    return group_->reduce(tensors, options);
  }).wait();
  if (index_ == index && !whole.is_alias_of(t)) t.detach().copy_(whole);
}

void Group::broadcast(Tensor t, int64_t index) {
  if (size() == 1) return;
  Tensor whole = t.detach().contiguous();
  const int64_t place = (index_ - index + size()) % size();
  begin("broadcast", bytes_of(t) * sends_of_broadcast(place, size()), [&] {
    std::vector<Tensor> tensors{as_bytes(whole.reshape({1, -1}))};
    c10d::BroadcastOptions options;
    options.rootRank = index;
    return group_->broadcast(tensors, options);
  }).wait();
  if (!whole.is_alias_of(t)) t.detach().copy_(whole);
}

Tensor Group::gather(const Tensor& t, int64_t dim) {
  if (size() == 1) return t.detach();
  const Tensor own = t.detach().contiguous();
  std::vector<int64_t> shape{size()};
  shape.insert(shape.end(), own.sizes().begin(), own.sizes().end());
  Tensor all = torch::empty(shape, own.options());
  Tensor into = as_bytes(all.reshape({1, -1})).flatten(), from = as_bytes(own.reshape({1, -1})).flatten();
  // The backend's call: the group's was renamed between LibTorch's versions.
  begin("gather", bytes_of(own) * (size() - 1), [&] {
    return group_->getBackend(own.device().type())->_allgather_base(into, from);
  }).wait();
  return dim == 0 ? all.flatten(0, 1) : torch::cat(all.unbind(0), dim);
}

Tensor Group::sum_scatter(const Tensor& t, int64_t dim) {
  if (size() == 1) return t.detach();
  core::require(t.size(dim) % size() == 0, "{}, sum_scatter: {} rows are not divided by {} ranks", name_, t.size(dim),
                size());
  // Each rank sends each other its part and adds up what it gets. Gloo has a call that does this, but it sends as much
  // as a sum for all.
  const Tensor parts = torch::stack(t.detach().chunk(size(), dim));
  const Tensor got = exchange(parts, std::vector<int64_t>(ranks_.size(), 1), std::vector<int64_t>(ranks_.size(), 1));
  Tensor sum = got[0].clone();
  for (int64_t i = 1; i < size(); ++i) sum += got[i];
  return sum;
}

Tensor Group::exchange(const Tensor& t, const std::vector<int64_t>& sent, const std::vector<int64_t>& received) {
  if (size() == 1) return t.detach();
  const Tensor own = t.detach().contiguous();
  std::vector<int64_t> shape = own.sizes().vec();
  int64_t rows = 0, out = 0, away = 0;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    rows += received[i];
    out += sent[i];
    if (static_cast<int64_t>(i) != index_) away += sent[i];
  }
  core::require(out == own.size(0), "{}, exchange: {} rows are to be sent, of {}", name_, out, own.size(0));
  shape[0] = rows;
  Tensor all = torch::empty(shape, own.options());
  const int64_t row_bytes = out == 0 ? 0 : bytes_of(own) / out;
  Tensor into = as_bytes(all), from = as_bytes(own);
  std::vector<int64_t> counts_in = received, counts_out = sent;
  begin("exchange", away * row_bytes, [&] {
    return group_->getBackend(own.device().type())->alltoall_base(into, from, counts_in, counts_out);
  }).wait();
  return all;
}

Pending Group::send(const Tensor& t, int64_t index, int tag) {
  core::require(t.is_contiguous(), "{}, send: the tensor is not contiguous", name_);
  return begin("send", bytes_of(t), [&] {
    std::vector<Tensor> tensors{t.detach()};
    return group_->send(tensors, static_cast<int>(index), tag);
  });
}

Pending Group::receive(Tensor t, int64_t index, int tag) {
  core::require(t.is_contiguous(), "{}, receive: the tensor is not contiguous", name_);
  return begin("receive", 0, [&] {
    std::vector<Tensor> tensors{t.detach()};
    return group_->recv(tensors, static_cast<int>(index), tag);
  });
}

void Group::meet() {
  if (size() == 1) return;
  begin("meet", 0, [&] { return group_->barrier(); }).wait();
}

c10::intrusive_ptr<ProcessGroup> Group::process_group() const { return group_; }

}  // namespace folio::train::parallel
