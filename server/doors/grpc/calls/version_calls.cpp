// Versions and Leases: tags, compaction; keys that end by themselves.
#include <icecore/v1/icecore.grpc.pb.h>

#include <fmt/format.h>

#include <utility>

#include "doors/grpc/calls/services.hpp"
#include "doors/grpc/messages.hpp"

namespace icecore::doors {

namespace {

using context = grpc::CallbackServerContext;
using unary = grpc::ServerUnaryReactor;
using service::right;

class version_calls final : public v1::Versions::CallbackService {
 public:
  explicit version_calls(door_parts& door) : door_(door) {}

  unary* Tag(context* its, const v1::TagRequest* request, v1::TagResponse* response) override {
    return answer_on(door_.work, door_, its, "Versions.Tag", *request, [=](unary_call& c) {
      const auto database = c.find(request->database(), key_bounds{}, right::write);
      tag_options label{.name = request->name(), .note = request->note(), .time_ns = {}};
      if (request->has_time_ns()) label.time_ns = request->time_ns();
      response->set_version(database->tag(label));
    });
  }

  unary* List(context* its, const v1::ListTagsRequest* request, v1::ListTagsResponse* response) override {
    return answer_on(door_.work, door_, its, "Versions.List", *request, [=](unary_call& c) {
      std::size_t bytes = 0;
      for (const tag_info& tag : c.find(request->database())->tags()) {
        fill(*response->add_tags(), tag);
        bytes += tag.name.size() + tag.note.size() + sizeof(v1::Tag);
      }
      c.hold(bytes);
    });
  }

  unary* Find(context* its, const v1::FindTagRequest* request, v1::FindTagResponse* response) override {
    return answer_on(door_.work, door_, its, "Versions.Find", *request, [=](unary_call& c) {
      if (const auto tag = c.find(request->database())->find_tag(point_of(request->at()))) {
        fill(*response->mutable_tag(), *tag);
      }
    });
  }

  unary* Resolve(context* its, const v1::ResolveRequest* request, v1::ResolveResponse* response) override {
    return answer_on(door_.work, door_, its, "Versions.Resolve", *request, [=](unary_call& c) {
      response->set_version(c.find(request->database())->resolve(point_of(request->at())));
    });
  }

  unary* Sync(context* its, const v1::SyncRequest* request, v1::SyncResponse*) override {
    return answer_on(door_.work, door_, its, "Versions.Sync", *request,
                     [=](unary_call& c) { c.find(request->database())->sync(); });
  }

  unary* Compact(context* its, const v1::CompactRequest* request, v1::CompactResponse*) override {
    return answer_on(door_.lengthy, door_, its, "Versions.Compact", *request, [=](unary_call& c) {
      c.find(request->database(), key_bounds{}, right::administer)->compact(request->oldest_kept());
    });
  }

 private:
  door_parts& door_;
};

/// Leases that are kept alive over one stream. Reading, keeping and writing follow each other. The door may end the
/// stream at any time, so Finish is called by whoever comes first.
class lease_keeper final : public grpc::ServerBidiReactor<v1::LeaseRequest, v1::Lease>,
                           public call,
                           public open_stream {
 public:
  lease_keeper(door_parts& shared, grpc::CallbackServerContext& its) : call(shared, its, "Leases.KeepAlive") {}

  void begin() {
    try {
      admit(0);
    } catch (...) {
      return finish(ended_by(service::failure_of(std::current_exception())));
    }
    StartSendInitialMetadata();  // the client sees that the stream is open
    StartRead(&request_);
    door().add(*this);
    if (door().stopping.load(std::memory_order_relaxed)) end({errc::unavailable, "the server is stopping"});
  }

  void OnReadDone(bool came) override {
    // A task holds the object (OnDone waits for `tasks_`), whether the door ends the stream meanwhile or not.
    if (came && hold_task()) {
      door().work.post([this] { keep(); });
    } else {
      finish_once([&] { return is_cancelled() ? ended_by(gone()) : ended_well(); });
    }
  }
  void OnWriteDone(bool taken) override {
    writing_since_.store(0, std::memory_order_relaxed);
    if (!taken) return finish_once([&] { return ended_by(gone()); });
    const std::lock_guard lock(mutex_);
    if (!finished_) StartRead(&request_);
  }
  void OnCancel() override {
    finish_once([&] { return ended_by(gone()); });
  }
  void OnDone() override {
    door().remove(*this);
    report();  // while the context is there
    bool last = false;
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
      last = tasks_ == 0;
    }
    if (last) destroy();
  }

  void end(const service::failure& why) override {
    if (!hold_task()) return;
    door().work.post([this, why] {
      finish_once([&] { return ended_by(why); });
      release_task();
    });
  }
  void cut_if_stalled(std::chrono::steady_clock::time_point before) override {
    const std::int64_t since = writing_since_.load(std::memory_order_relaxed);
    if (since != 0 && since < before.time_since_epoch().count()) context().TryCancel();
  }

 private:
  void keep() {
    try {
      const auto database = find(request_.database());
      fill(answer_, database->keep_alive(request_.number()));
      answer_.clear_keys();
    } catch (...) {
      const service::failure why = service::failure_of(std::current_exception());
      finish_once([&] { return ended_by(why); });
      return release_task();
    }
    {
      const std::lock_guard lock(mutex_);
      if (!finished_) {
        writing_since_.store(std::chrono::steady_clock::now().time_since_epoch().count(), std::memory_order_relaxed);
        StartWrite(&answer_);
      }
    }
    release_task();
  }

  bool hold_task() {
    const std::lock_guard lock(mutex_);
    if (finished_) return false;
    ++tasks_;
    return true;
  }
  void release_task() {
    bool last = false;
    {
      const std::lock_guard lock(mutex_);
      --tasks_;
      last = tasks_ == 0 && done_;
    }
    if (last) destroy();
  }
  template <typename Status>
  void finish_once(const Status& status) {
    {
      const std::lock_guard lock(mutex_);
      if (finished_) return;
      finished_ = true;
    }
    Finish(status());
  }
  void finish(const grpc::Status& status) {
    finish_once([&] { return status; });
  }
  void destroy() {
    door_parts& shared = door();
    delete this;
    shared.closed();
  }
  static service::failure gone() { return {errc::cancelled, "the client has ended the stream"}; }

  v1::LeaseRequest request_;
  v1::Lease answer_;
  std::mutex mutex_;
  int tasks_ = 0;          ///< tasks of the door that use this object
  bool finished_ = false;  ///< nothing is begun any more
  bool done_ = false;      ///< gRPC has forgotten this object
  std::atomic<std::int64_t> writing_since_{0};
};

class lease_calls final : public v1::Leases::CallbackService {
 public:
  explicit lease_calls(door_parts& door) : door_(door) {}

  unary* Grant(context* its, const v1::GrantRequest* request, v1::Lease* response) override {
    return answer_on(door_.work, door_, its, "Leases.Grant", *request, [=](unary_call& c) {
      constexpr std::uint64_t ten_years_ms = 315'576'000'000;
      if (request->time_ms() < 1000 || request->time_ms() > ten_years_ms) {
        throw error(errc::invalid_argument,
                    fmt::format("a lease of {} ms: it may be 1 second to 10 years", request->time_ms()));
      }
      const auto database = c.find(request->database());
      fill(*response, database->grant(std::chrono::milliseconds(request->time_ms()), request->number()));
    });
  }

  grpc::ServerBidiReactor<v1::LeaseRequest, v1::Lease>* KeepAlive(context* its) override {
    auto* const made = new lease_keeper(door_, *its);
    made->begin();
    return made;
  }

  /// Whoever ends a lease removes its keys, so must be allowed to write all of them.
  unary* Revoke(context* its, const v1::LeaseRequest* request, v1::RevokeResponse* response) override {
    return answer_direct(door_, its, "Leases.Revoke", *request, [=, this](unary_call& c) {
      door_.work.post([=, &c] {
        if (c.is_cancelled()) return c.fail(cancelled_by_client());
        c.attempt([&](unary_call& revoking) { revoke(revoking, *request, *response); });
      });
    });
  }

  unary* Get(context* its, const v1::LeaseRequest* request, v1::Lease* response) override {
    return answer_on(door_.work, door_, its, "Leases.Get", *request, [=](unary_call& c) {
      const auto database = c.find(request->database());
      const service::lease_info lease = database->lease(request->number(), request->keys());
      const service::database_settings settings = database->settings();
      for (const std::string& key : lease.keys) c.require(settings, key, right::read);
      fill(*response, lease);
    });
  }

  unary* List(context* its, const v1::ListLeasesRequest* request, v1::ListLeasesResponse* response) override {
    return answer_on(door_.work, door_, its, "Leases.List", *request, [=](unary_call& c) {
      const auto numbers = c.find(request->database())->leases();
      response->mutable_numbers()->Assign(numbers.begin(), numbers.end());
    });
  }

 private:
  static void revoke(unary_call& c, const v1::LeaseRequest& request, v1::RevokeResponse& response) {
    const auto database = c.find(request.database());
    if (!c.who().is_root()) {
      const service::database_settings settings = database->settings();
      for (const std::string& key : database->lease(request.number(), true).keys) {
        c.require(settings, key, right::write);
      }
    }
    database->revoke(request.number(), [&c, &response](service::result<service::outcome> done) {
      if (const auto* const failed = std::get_if<service::failure>(&done)) return c.fail(*failed);
      const auto& what = std::get<service::outcome>(done);
      response.set_version(what.version);
      std::uint64_t removed = 0;
      for (const service::operation_result& result : what.results) removed += result.count;
      response.set_removed(removed);
      c.succeed();
    });
  }

  door_parts& door_;
};

}  // namespace

std::unique_ptr<grpc::Service> make_version_calls(door_parts& door) { return std::make_unique<version_calls>(door); }
std::unique_ptr<grpc::Service> make_lease_calls(door_parts& door) { return std::make_unique<lease_calls>(door); }

}  // namespace icecore::doors
