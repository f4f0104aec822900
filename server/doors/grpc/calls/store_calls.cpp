// Store: keys and values.
#include <icecore/v1/icecore.grpc.pb.h>

#include <fmt/format.h>

#include <algorithm>

#include "doors/grpc/calls/services.hpp"
#include "doors/grpc/calls/streams.hpp"
#include "doors/grpc/messages.hpp"

namespace icecore::doors {

namespace {

using context = grpc::CallbackServerContext;
using unary = grpc::ServerUnaryReactor;
using service::right;

constexpr int keys_max = 65'536;
constexpr int keys_at_once = 64;  ///< so many finds gRPC's own thread does
constexpr std::uint64_t rows_max = 10'000;

/// Whether a read at this point waits for nobody, so that gRPC's thread may do it.
bool is_quick(const service::database_settings& settings) { return settings.rule == service::version_rule::write; }

void fill_found(v1::GetResponse& response, const std::optional<service::found>& found) {
  response.set_found(found.has_value());
  if (!found) return;
  if (found->value().size() > message_bytes_max) {
    throw error(errc::limit_reached, fmt::format("the value has {} bytes, more than a message of gRPC can have (2 GiB)",
                                                 found->value().size()));
  }
  response.set_value(found->value().data(), found->value().size());
  response.set_version(found->version());
}

/// Which rights a list of operations needs: nothing is read or written before all are there.
void require(const call& c, const service::database_settings& settings, const std::vector<service::operation>& list) {
  using kind = service::operation::kind;
  for (const service::operation& o : list) {
    const bool range = o.what == kind::remove_range || o.what == kind::get_range;
    const auto need = [&](right what) {
      if (range) {
        c.require(settings, bounds_from(o.key, o.end), what);
      } else {
        c.require(settings, o.key, what);
      }
    };
    if (o.writes()) need(right::write);
    if (!o.writes() || o.previous || o.what == kind::increment) need(right::read);
  }
}

void require(const call& c, const service::database_settings& settings, const service::transaction& what) {
  if (c.who().is_root()) return;
  for (const service::condition& condition : what.conditions) c.require(settings, condition.key, right::read);
  require(c, settings, what.then);
  require(c, settings, what.otherwise);
}

void limit_reads(std::vector<service::operation>& list) {
  for (service::operation& o : list) {
    if (o.what == service::operation::kind::get_range && (o.limit == 0 || o.limit > rows_max)) o.limit = rows_max;
  }
}

/// Hands the transaction to the database. `answer` fills the response from the outcome, on any thread; the call ends.
template <typename Answer>
void write(unary_call& c, const std::string& database, service::transaction what, Answer answer) {
  const std::shared_ptr<service::database> found = c.find(database);
  require(c, found->settings(), what);
  c.hold(what.bytes());
  if (c.is_cancelled()) return c.fail(cancelled_by_client());
  found->write(std::move(what), [&c, answer = std::move(answer)](service::result<service::outcome> done) {
    if (const auto* const failed = std::get_if<service::failure>(&done)) return c.fail(*failed);
    c.attempt([&](unary_call&) {
      answer(std::get<service::outcome>(done));
      c.succeed();
    });
  });
}

class store_calls final : public v1::Store::CallbackService {
 public:
  explicit store_calls(door_parts& door) : door_(door) {}

  unary* Get(context* its, const v1::GetRequest* request, v1::GetResponse* response) override {
    return answer_direct(door_, its, "Store.Get", *request, [=, this](unary_call& c) {
      const auto database = c.find(request->database());
      const service::database_settings settings = database->settings();
      c.require(settings, request->key(), right::read);
      const auto read = [=](unary_call&) {
        fill_found(*response, database->find(request->key(), point_of(request->at())));
      };
      if (!is_quick(settings)) return c.go_on(door_.work, read);
      read(c);
      c.succeed();
    });
  }

  unary* GetMany(context* its, const v1::GetManyRequest* request, v1::GetManyResponse* response) override {
    return answer_direct(door_, its, "Store.GetMany", *request, [=, this](unary_call& c) {
      if (request->keys_size() > keys_max) {
        throw error(errc::invalid_argument,
                    fmt::format("{} keys; one call gets at most {}", request->keys_size(), keys_max));
      }
      const auto database = c.find(request->database());
      const service::database_settings settings = database->settings();
      for (const std::string& key : request->keys()) c.require(settings, key, right::read);
      const auto read = [=](unary_call& reading) { get_many(reading, *database, *request, *response); };
      if (!is_quick(settings) || request->keys_size() > keys_at_once) return c.go_on(door_.work, read);
      read(c);
      c.succeed();
    });
  }

  unary* Put(context* its, const v1::PutRequest* request, v1::PutResponse* response) override {
    return answer_direct(door_, its, "Store.Put", *request, [=](unary_call& c) {
      service::transaction t;
      t.then.push_back(put_of(*request));
      write(c, request->database(), std::move(t), [=](const service::outcome& done) {
        response->set_version(done.version);
        response->set_written(done.results.empty() ||
                              done.results.front().is == service::operation_result::state::done);
      });
    });
  }

  unary* Remove(context* its, const v1::RemoveRequest* request, v1::RemoveResponse* response) override {
    return answer_direct(door_, its, "Store.Remove", *request, [=](unary_call& c) {
      service::transaction t;
      t.then.push_back(remove_of(*request));
      write(c, request->database(), std::move(t), [=](const service::outcome& done) {
        response->set_version(done.version);
        if (!done.results.empty()) response->set_removed(done.results.front().count);
      });
    });
  }

  unary* Write(context* its, const v1::WriteRequest* request, v1::WriteResponse* response) override {
    return answer_direct(door_, its, "Store.Write", *request, [=, this](unary_call& c) {
      service::transaction t = transaction_of(*request, door_.all.options().limits.transaction_operations);
      limit_reads(t.then);
      limit_reads(t.otherwise);
      write(c, request->database(), std::move(t), [=](service::outcome& done) { fill(*response, done); });
    });
  }

  unary* Count(context* its, const v1::CountRequest* request, v1::CountResponse* response) override {
    return answer_on(door_.lengthy, door_, its, "Store.Count", *request, [=](unary_call& c) {
      const key_bounds bounds = bounds_of(request->bounds());
      const auto database = c.find(request->database(), bounds, right::read);
      const version at = database->resolve(point_of(request->at()));
      response->set_count(database->count(bounds, at));
      response->set_version(at);
    });
  }

  grpc::ServerReadReactor<v1::LoadRequest>* Load(context* its, v1::LoadResponse* response) override {
    return load_rows(door_, its, response);
  }

  grpc::ServerWriteReactor<v1::Rows>* Scan(context* its, const v1::ScanRequest* request) override {
    const stream_kind kind{.method = "Store.Scan",
                           .limits = block_limits_of(request->block_rows(), request->block_bytes())};
    service::scan_request what{.bounds = bounds_of(request->bounds()),
                               .at = point_of(request->at()),
                               .reverse = request->reverse(),
                               .limit = request->limit(),
                               .values = !request->keys_only(),
                               .versions = request->versions()};
    return stream_rows(door_, its, kind, request->ByteSizeLong(),
                       [what = std::move(what), name = request->database()](call& c) {
                         return c.find(name, what.bounds, right::read)->scan(what);
                       });
  }

  grpc::ServerWriteReactor<v1::Rows>* History(context* its, const v1::HistoryRequest* request) override {
    return stream_rows(door_, its, {.method = "Store.History"}, request->ByteSizeLong(),
                       [key = request->key(), up_to = point_of(request->up_to()), name = request->database()](call& c) {
                         const auto database = c.find(name);
                         c.require(database->settings(), key, right::read);
                         return database->history(key, up_to);
                       });
  }

  grpc::ServerWriteReactor<v1::Rows>* Diff(context* its, const v1::DiffRequest* request) override {
    service::difference_request what{
        .before = request->before(), .after = point_of(request->after()), .bounds = bounds_of(request->bounds())};
    return stream_rows(door_, its, {.method = "Store.Diff"}, request->ByteSizeLong(),
                       [what = std::move(what), name = request->database()](call& c) {
                         return c.find(name, what.bounds, right::read)->differences(what);
                       });
  }

  grpc::ServerWriteReactor<v1::Rows>* Changes(context* its, const v1::ChangesRequest* request) override {
    service::changes_request what{.after = request->after(),
                                  .up_to = point_of(request->up_to()),
                                  .bounds = bounds_of(request->bounds()),
                                  .before = request->before()};
    return stream_rows(door_, its, {.method = "Store.Changes", .tells = true}, request->ByteSizeLong(),
                       [what = std::move(what), name = request->database()](call& c) {
                         return c.find(name, what.bounds, right::read)->changes(what);
                       });
  }

  grpc::ServerWriteReactor<v1::Rows>* Watch(context* its, const v1::WatchRequest* request) override {
    return watch_rows(door_, its, request);
  }

 private:
  static void get_many(call& c, service::database& database, const v1::GetManyRequest& request,
                       v1::GetManyResponse& response) {
    const service::limits& limits = c.door().all.options().limits;
    const std::uint64_t bytes_max =
        std::min<std::uint64_t>(std::max(limits.output_bytes, limits.request_bytes), message_bytes_max);
    const version at = database.resolve(point_of(request.at()));
    std::uint64_t bytes = 0;
    for (const std::string& key : request.keys()) {
      if (c.is_cancelled()) throw error(errc::cancelled, "the client cancelled the call");
      v1::GetResponse& one = *response.add_values();
      fill_found(one, database.find(key, at));
      bytes += one.value().size() + sizeof(v1::GetResponse);
      if (bytes > bytes_max) {
        throw error(errc::limit_reached,
                    fmt::format("the values of {} keys have more than {} bytes; ask for fewer at once, or scan",
                                request.keys_size(), bytes_max));
      }
    }
    c.hold(bytes);
    response.set_version(at);
  }

  door_parts& door_;
};

}  // namespace

std::unique_ptr<grpc::Service> make_store_calls(door_parts& door) { return std::make_unique<store_calls>(door); }

}  // namespace icecore::doors
