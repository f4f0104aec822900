#include "support/crew.hpp"

#include <condition_variable>
#include <mutex>
#include <thread>

namespace icecore::testing {

struct crew::member {
  std::mutex mutex;
  std::condition_variable changed;
  const std::function<void()>* work = nullptr;
  std::exception_ptr failure;
  bool over = false;
  std::thread thread{[this] {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [this] { return over || work != nullptr; });
      if (over) return;
      try {
        (*work)();
      } catch (...) {
        failure = std::current_exception();
      }
      work = nullptr;
      changed.notify_all();
    }
  }};

  void run(const std::function<void()>& what) {
    std::unique_lock lock(mutex);
    failure = nullptr;
    work = &what;
    changed.notify_all();
    changed.wait(lock, [this] { return work == nullptr; });
    if (failure) std::rethrow_exception(failure);
  }
  ~member() {
    {
      const std::scoped_lock lock(mutex);
      over = true;
    }
    changed.notify_all();
    thread.join();
  }
};

crew::crew(unsigned count) {
  for (unsigned i = 1; i < count; ++i) members_.push_back(std::make_unique<member>());
}
crew::~crew() = default;

void crew::run(unsigned i, const std::function<void()>& work) {
  if (i == 0) {
    work();
  } else {
    members_[i - 1]->run(work);
  }
}

}  // namespace icecore::testing
