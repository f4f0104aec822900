#include "cluster/communicator.hpp"

#include <new>
#include <utility>

#include "cluster/messages/messenger.hpp"
#include "cluster/messages/progress.hpp"
#include "icecore/error.hpp"

namespace icecore::mpi {

bool mpi_runs() noexcept {
  int begun = 0;
  int ended = 0;
  MPI_Initialized(&begun);
  MPI_Finalized(&ended);
  return begun != 0 && ended == 0;
}

bool has_full_threads() {
  int level = MPI_THREAD_SINGLE;
  check(MPI_Query_thread(&level), "MPI_Query_thread");
  return level == MPI_THREAD_MULTIPLE;
}

namespace {

/// Waits when the new cluster cannot answer yet: answers for other clusters of the process, whose ranks may be waited
/// for before all ranks arrive here.
void wait_for_all(const std::function<bool()>& done) {
  for (backoff pause; !done(); pause.pause()) progress::step_all_of_one_thread();
}

}  // namespace

communicator::communicator(MPI_Comm original) : communicator(original, wait_for_all) {}

communicator::communicator(MPI_Comm original, const std::function<void(const std::function<bool()>& done)>& wait) {
  if (!mpi_runs()) {
    throw error(errc::mpi,
                "MPI is not running: call MPI_Init_thread before a cluster is opened, MPI_Finalize after it is "
                "closed");
  }
  if (original == MPI_COMM_NULL) throw error(errc::invalid_argument, "a cluster cannot be opened on MPI_COMM_NULL");
  int two_groups = 0;
  check(MPI_Comm_test_inter(original, &two_groups), "MPI_Comm_test_inter");
  if (two_groups != 0) throw error(errc::invalid_argument, "a cluster cannot be opened on an intercommunicator");
  ranks::request_memory memory(sizeof(MPI_Comm));
  auto* const made = new (memory.data()) MPI_Comm(MPI_COMM_NULL);
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Comm_idup(original, made, &request), "MPI_Comm_idup");
  try {
    wait([&request] {
      int done = 0;
      check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
      return done != 0;
    });
  } catch (...) {  // MPI may still create it later
    memory.abandon();
    throw;
  }
  comm_ = *made;
  MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
}

communicator::~communicator() {
  if (!abandoned_ && mpi_runs()) MPI_Comm_free(&comm_);
}

finalize_hook::finalize_hook(std::function<void()> at_finalize) : at_finalize_(std::move(at_finalize)) {
  // MPI_Finalize first deletes the attributes of MPI_COMM_SELF (MPI 3.1, section 8.7.1)
  check(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, run, &key_, nullptr), "MPI_Comm_create_keyval");
  check(MPI_Comm_set_attr(MPI_COMM_SELF, key_, this), "MPI_Comm_set_attr");
}

finalize_hook::~finalize_hook() {
  at_finalize_ = nullptr;
  if (key_ == MPI_KEYVAL_INVALID || !mpi_runs()) return;
  MPI_Comm_delete_attr(MPI_COMM_SELF, key_);
  if (key_ != MPI_KEYVAL_INVALID) MPI_Comm_free_keyval(&key_);
}

int finalize_hook::run(MPI_Comm /*comm*/, int /*key*/, void* self, void* /*extra*/) {
  auto* hook = static_cast<finalize_hook*>(self);
  if (const auto at_finalize = std::exchange(hook->at_finalize_, nullptr)) {
    hook->key_ = MPI_KEYVAL_INVALID;  // MPI is deleting the attribute
    at_finalize();
  }
  return MPI_SUCCESS;
}

}  // namespace icecore::mpi
