// SPDX-License-Identifier: Apache-2.0
#include "grpc/grpc_stream.h"

#include <atomic>
#include <deque>
#include <mutex>

#include "grpc/grpc_messages.h"

namespace camshaft::serve {
namespace {

constexpr size_t kMostAtWork = 256;  // requests of one stream; more are read when some are answered

class Stream : public StreamReactor, public std::enable_shared_from_this<Stream> {
 public:
  explicit Stream(Core& core) : core_(core) {}

  void begin(std::shared_ptr<Stream> self) {
    self_ = std::move(self);
    read();
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      const std::lock_guard lock(mutex_);
      reads_ended_ = true;
      return write_next();
    }
    const std::shared_ptr<Slot> slot = std::move(reading_);
    {
      const std::lock_guard lock(mutex_);
      slots_.push_back(slot);
    }
    run(slot);
    {
      const std::lock_guard lock(mutex_);
      if (slots_.size() >= kMostAtWork) {
        is_paused_ = true;
        return;
      }
    }
    read();
  }

  void OnWriteDone(bool ok) override {
    bool resumes = false;
    {
      const std::lock_guard lock(mutex_);
      is_writing_ = false;
      slots_.pop_front();
      if (!ok) is_cancelled_ = true;
      resumes = is_paused_ && !is_finished_ && slots_.size() < kMostAtWork / 2;
      if (resumes) is_paused_ = false;
      write_next();
    }
    if (resumes) read();
  }

  void OnCancel() override {
    is_cancelled_ = true;
    const std::lock_guard lock(mutex_);
    reads_ended_ = true;
    write_next();
  }

  void OnDone() override { const std::shared_ptr<Stream> last = std::move(self_); }

 private:
  struct Slot {
    inference::ModelInferRequest message;
    inference::ModelStreamInferResponse response;
    std::deque<std::vector<std::byte>> memory;
    bool is_ready = false;
  };

  void read() {
    reading_ = std::make_shared<Slot>();
    StartRead(&reading_->message);
  }

  void run(const std::shared_ptr<Slot>& slot) {
    auto request = std::make_shared<Request>();
    ModelPtr model;
    const std::string& name = slot->message.model_name();
    auto error = core_.repository().find(name, slot->message.model_version(), model);
    if (!error) error = read_inference(slot->message, slot->memory, *request);
    if (error) return refuse(slot, *error);
    const auto self = this->shared_from_this();
    request->is_abandoned = [self] { return self->is_cancelled_.load(); };
    request->done = [self, slot, model, weak = std::weak_ptr<Request>(request)](Answer&& answer) {
      const RequestPtr asked = weak.lock();
      auto failed = answer.error;
      if (!failed)
        failed = write_inference(*model, *asked, answer, *slot->response.mutable_infer_response());
      failed ? self->refuse(slot, *failed) : self->ready(slot);
    };
    if (auto refused = core_.infer(name, "", request, model)) refuse(slot, *refused);
  }

  void refuse(const std::shared_ptr<Slot>& slot, const Error& error) {
    slot->response.Clear();
    slot->response.set_error_message(error.message);
    slot->response.mutable_infer_response()->set_id(slot->message.id());
    ready(slot);
  }

  void ready(const std::shared_ptr<Slot>& slot) {
    const std::lock_guard lock(mutex_);
    slot->is_ready = true;
    write_next();
  }

  // With the lock.
  void write_next() {
    if (is_writing_ || is_finished_) return;
    if (is_cancelled_) {
      is_finished_ = true;
      return Finish(::grpc::Status::CANCELLED);
    }
    if (!slots_.empty() && slots_.front()->is_ready) {
      is_writing_ = true;
      return StartWrite(&slots_.front()->response);
    }
    if (reads_ended_ && slots_.empty()) {
      is_finished_ = true;
      Finish(::grpc::Status::OK);
    }
  }

  Core& core_;
  std::shared_ptr<Stream> self_;
  std::shared_ptr<Slot> reading_;
  std::mutex mutex_;
  std::deque<std::shared_ptr<Slot>> slots_;
  std::atomic<bool> is_cancelled_{false};
  bool reads_ended_ = false, is_writing_ = false, is_finished_ = false, is_paused_ = false;
};

class Refused : public StreamReactor {
 public:
  explicit Refused(const ::grpc::Status& status) { Finish(status); }
  void OnDone() override { delete this; }
};

}  // namespace

StreamReactor* make_stream(Core& core, ::grpc::CallbackServerContext&) {
  auto stream = std::make_shared<Stream>(core);
  stream->begin(stream);
  return stream.get();
}

StreamReactor* make_refused_stream(const ::grpc::Status& status) {
  return new Refused(status);
}

}  // namespace camshaft::serve
