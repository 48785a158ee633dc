// The server's API without a network: requests go in as HTTP would bring them, and answers come as it would send them.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <utility>

#include "infer/server/local_service.h"
#include "src/module.h"

namespace folio::python {
namespace {

using infer::server::LocalReply;
constexpr std::chrono::milliseconds kBetweenLooks{20};  // for Ctrl-C

nb::bytes bytes_of(const std::string& text) { return nb::bytes(text.data(), text.size()); }

// Calls `look`, which waits a moment, until it has found something or the reply has ended; Ctrl-C gives it up.
template <typename Look>
auto wait(LocalReply& reply, Look look) {
  while (true) {
    auto [found, ended] = [&] {
      const WithoutGil away;
      auto value = look();
      return std::pair(std::move(value), reply.ended());
    }();
    if (ended || found != decltype(found){}) return std::move(found);
    if (PyErr_CheckSignals() != 0) {
      reply.give_up();
      throw nb::python_error();
    }
  }
}

void serve(SharedModel& model, nb::dict given) {
  const Json o = json_of(given);
  infer::server::ServiceOptions options;
  options.api_key = o.value("api_key", "");
  options.allowed_hosts = o.value("allowed_hosts", std::vector<std::string>());
  options.allowed_origins = o.value("allowed_origins", std::vector<std::string>());
  options.max_queue = o.value("max_queue", options.max_queue);
  options.request_work = o.value("request_work", options.request_work);
  options.request_timeout = std::chrono::seconds(o.value("request_timeout", options.request_timeout.count()));
  options.log = o.value("log", false);
  options.log_texts = o.value("log_texts", false);
  const WithoutGil away;
  model.serve(std::move(options));
}

std::unique_ptr<LocalReply> request(SharedModel& model, const std::string& method, const std::string& path,
                                    nb::dict headers, nb::bytes body, std::optional<uint64_t> seed,
                                    std::shared_ptr<infer::Notifier> notifier) {
  const auto header = [&](const char* name) {
    return headers.contains(name) ? nb::cast<std::string>(headers[name]) : std::string();
  };
  infer::server::HttpRequest r{.method = method,
                               .path = path,
                               .body = {body.c_str(), body.size()},
                               .host = header("host"),
                               .origin = header("origin"),
                               .content_type = header("content-type"),
                               .authorization = header("authorization"),
                               .random_seed = seed};
  const WithoutGil away;
  return SharedModel::Use(model).service().request(std::move(r), std::move(notifier));
}

}  // namespace

void bind_service(nb::module_& m) {
  nb::class_<LocalReply>(m, "Reply")
      .def("status", [](LocalReply& r) { return wait(r, [&] { return r.status(kBetweenLooks); }); })
      .def("poll_status", [](LocalReply& r) { return r.status({}); })
      .def("headers", &LocalReply::headers)
      .def("next", [](LocalReply& r) { return bytes_of(wait(r, [&] { return r.next(kBetweenLooks); })); })
      .def("poll", [](LocalReply& r) { return bytes_of(r.next({})); })
      .def("give_up", &LocalReply::give_up)
      .def_prop_ro("ended", &LocalReply::ended);
  m.def("serve", &serve);
  m.def("request", &request, nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg("seed").none() = nb::none(),
        nb::arg("notifier").none() = nb::none());
}

}  // namespace folio::python
