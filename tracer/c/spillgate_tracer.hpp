// RAII for C++11 and later over spillgate_tracer.h. Everything ends when its
// scope is left, also by an exception.
//
//   spillgate::Tracer tracer(path);
//   spillgate::Mutex orders(tracer, "orders");
//
//   spillgate::Task task(tracer, info);
//   spillgate::Lock<spillgate::Mutex> lock(orders, task);   // throws Cancelled
#ifndef SPILLGATE_TRACER_HPP
#define SPILLGATE_TRACER_HPP

#include <cerrno>
#include <stdexcept>
#include <string>
#include <system_error>

#include "spillgate_tracer.h"

namespace spillgate {

// The engine cancelled the task while it waited.
struct Cancelled : std::runtime_error {
	Cancelled() : std::runtime_error("cancelled by Spillgate") {}
};

// A task file was refused; what() says why.
struct Refused : std::runtime_error {
	explicit Refused(const sg_error &e) : std::runtime_error(std::string(e.word) + ": " + e.text) {}
};

inline void check(int result) {
	if (result == ECANCELED) throw Cancelled();
	if (result != 0) throw std::system_error(result, std::generic_category());
}

// A tracer on the file at path. It outlives its tasks and locks.
class Tracer {
public:
	explicit Tracer(const sg_config &config) {
		sg_error error;
		tracer_ = sg_open(&config, &error);
		if (!tracer_) throw Refused(error);
	}
	explicit Tracer(const std::string &path) : Tracer(at(path)) {}
	~Tracer() { sg_close(tracer_); }
	Tracer(const Tracer &) = delete;
	Tracer &operator=(const Tracer &) = delete;
	sg_tracer *get() const { return tracer_; }

private:
	static sg_config at(const std::string &path) {
		sg_config config = {};
		config.path = path.c_str();
		return config;
	}
	sg_tracer *tracer_;
};

// A task that runs from here to the end of the scope.
class Task {
public:
	explicit Task(const Tracer &tracer, const sg_info &info = sg_info()) : task_(sg_begin(tracer.get(), &info)) {}
	~Task() { sg_end(task_); }
	Task(Task &&other) noexcept : task_(other.task_) { other.task_ = nullptr; }
	Task(const Task &) = delete;
	Task &operator=(const Task &) = delete;
	sg_task *get() const { return task_; }
	// Throws Cancelled if the engine asked for it: a check point.
	void check_point() const {
		if (sg_cancelled(task_)) throw Cancelled();
	}
	void progress(uint64_t done, uint64_t total) const { sg_set_progress(task_, done, total); }

private:
	sg_task *task_;
};

// A traced mutex.
class Mutex {
public:
	Mutex(const Tracer &tracer, const char *name) { check(sg_mutex_init(&mutex_, tracer.get(), name)); }
	~Mutex() { sg_mutex_destroy(&mutex_); }
	Mutex(const Mutex &) = delete;
	Mutex &operator=(const Mutex &) = delete;
	void lock(const Task &task) { check(sg_mutex_lock(&mutex_, task.get())); }
	void unlock(const Task &task) { sg_mutex_unlock(&mutex_, task.get()); }

private:
	sg_mutex mutex_;
};

// A traced lock that readers share. Reader and Writer give it to Lock.
class SharedMutex {
public:
	SharedMutex(const Tracer &tracer, const char *name) { check(sg_rwlock_init(&rwlock_, tracer.get(), name)); }
	~SharedMutex() { sg_rwlock_destroy(&rwlock_); }
	SharedMutex(const SharedMutex &) = delete;
	SharedMutex &operator=(const SharedMutex &) = delete;
	void lock(const Task &task) { check(sg_rwlock_wrlock(&rwlock_, task.get())); }
	void lock_shared(const Task &task) { check(sg_rwlock_rdlock(&rwlock_, task.get())); }
	void unlock(const Task &task) { sg_rwlock_unlock(&rwlock_, task.get()); }

private:
	sg_rwlock rwlock_;
};

// Holds a lock until the scope is left.
template <class Lockable> class Lock {
public:
	Lock(Lockable &lockable, const Task &task) : lockable_(lockable), task_(task) { lockable_.lock(task_); }
	~Lock() { lockable_.unlock(task_); }
	Lock(const Lock &) = delete;
	Lock &operator=(const Lock &) = delete;

private:
	Lockable &lockable_;
	const Task &task_;
};

// Holds a SharedMutex together with other readers until the scope is left.
class SharedLock {
public:
	SharedLock(SharedMutex &mutex, const Task &task) : mutex_(mutex), task_(task) { mutex_.lock_shared(task_); }
	~SharedLock() { mutex_.unlock(task_); }
	SharedLock(const SharedLock &) = delete;
	SharedLock &operator=(const SharedLock &) = delete;

private:
	SharedMutex &mutex_;
	const Task &task_;
};

} // namespace spillgate
#endif
