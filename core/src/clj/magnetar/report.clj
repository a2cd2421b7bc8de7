(ns magnetar.report
  "Sends failures and reports to functions of the program; explains errors.

    (report/add-hook :failure (fn [{:keys [site error]}] (log/error error site)))
    (report/add-hook :report (fn [{:keys [level] :as event}]
                               (log/log (if (= :warning level) :warn level) event)))

  hooks   add-hook remove-hook
  errors  explain pst

  Each kind has hooks of its own, any number of them. The default is what happens while a kind has no hook.

    :failure  what no caller caught: {:site :thread :error}. A go block, a thread, a plain process, a callback
              or a function handed to Magnetar threw :error. :site names the source line that started it,
              where that is known. The hook is called on the thread that failed, once for each failure. Links
              and monitors of a process are told of its death when the hooks have returned. Cancellation and
              exit are not failures. Default: the thread's or the default UncaughtExceptionHandler, if the
              program has set one, else standard error.
    :report   what befell a process of OTP: a map with :event and :level, such as :crash, or :child-terminated
              of a supervisor. A crash has :context, a map from the names of context values to the values: the
              process's own, and over them those of the message that it handled. Without any the key is
              missing. The hook is called in the process that reports. Default: the logger \"magnetar\", of
              clojure.tools.logging where that is present; else of SLF4J where a back end of it is present;
              else of the System.Logger. There an event is text to read. tools.logging is given a map whose
              `str` is that text. A back end of SLF4J 2 that takes key-value pairs gets those too, each
              context value as one.
    :end      an application has ended that must not: {:application :type :reason}. The hook is called in a
              process of its own. Default: all other applications are stopped.

  If a hook throws, that is told on standard error, with what the hook was given. The other hooks are still
  called, and the process that reports goes on. That holds for `(exit reason)` in a hook as well. A process
  that is killed while it runs a hook ends there.

  Require it as `[magnetar.report :as report]`."
  (:require
   [clojure.string :as str]
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.explain :as explain]
   [magnetar.impl.hooks :as hooks]
   [magnetar.impl.pst :as pst]
   [magnetar.impl.runtime]
   [magnetar.impl.suggest :as suggest]
   [magnetar.proc-lib.report]))

(set! *warn-on-reflection* true)

(def ^:private kinds [:failure :report :end])

(defn- check-kind [operation kind]
  (when-not (some #(= kind %) kinds)
    (arguments/misuse :magnetar/bad-kind
                      (str "`" operation "` knows hooks of the kinds " (str/join ", " kinds) "; this is " (arguments/show kind) "."
                           (when-some [meant (suggest/closest kind kinds)] (str " Is " meant " meant?")))
                      {:kind kind})))

(defn add-hook
  "Adds a function to be called with each failure or report; returns it.

  The kinds are :failure, :report and :end, as described in the namespace. The first hook of a kind replaces
  the default. Hooks are called in the order in which they were added. A function that is already a hook of
  the kind is not added twice.

  Throws an IllegalArgumentException for another kind.

  Example:

    (report/add-hook :report #(swap! events conj %))

  See also `remove-hook`."
  {:added "0.2"}
  [kind f]
  (check-kind "add-hook" kind)
  (arguments/function "add-hook" f "(report/add-hook :failure prn)")
  (hooks/add kind f)
  f)

(defn remove-hook
  "Removes a function that `add-hook` was given; returns nil.

  Nothing happens if it is not a hook of the kind. When the last hook is removed the default is back.

  Throws an IllegalArgumentException for another kind.

  Example:

    (let [hook (report/add-hook :failure prn)]
      (try (import-orders) (finally (report/remove-hook :failure hook))))"
  {:added "0.2"}
  [kind f]
  (check-kind "remove-hook" kind)
  (hooks/remove kind f)
  nil)

;; ---- errors

(defn- check-error [operation x]
  (when-not (or (nil? x) (instance? Throwable x))
    (arguments/misuse :magnetar/not-an-error (str "`" operation "` wants an exception; this is " (arguments/show x) ".") {:value x})))

(defn explain
  "Prints why Magnetar refuses something, and what to write instead.

  It takes an exception, whose causes are searched for an id of Magnetar, or an id. Without an argument it
  explains *e. It prints a section of docs/reference/errors.md. If the exception has no id of Magnetar, it
  says so.

  Returns nil.

  Throws an IllegalArgumentException for what is neither an exception nor a keyword.

  Example:

    (report/explain :magnetar/nil-value)

  See also `pst`."
  {:added "0.2"}
  ([] (explain *e))
  ([error-or-id]
   (when-not (keyword? error-or-id)
     (check-error "explain" error-or-id))
   (println (explain/text error-or-id))))

(defn pst
  "Prints an exception: message, data, causes, and the frames of the program.

  Frames of Magnetar, of Clojure and of the JDK are left out. Forms that `magnetar.trace/trace-forms` noted
  are shown, at most five. Below them stands what started the failed work, where the errors know it: the
  lines of scopes, forks and tasks, and the process with its ancestors. If the error has an exit reason, the
  frames of the process that failed are shown too. Data are cut short, and shown as
  `magnetar.inspect/redact-with` allows. Without an argument it prints *e.

  Returns nil.

  Throws an IllegalArgumentException for what is no exception.

  Options:
    :lines  how many lines to print at most. Default 40

  Example:

    (report/pst *e {:lines 20})

  See also `explain`."
  {:added "0.2" :arglists '([] [error] [error {:keys [lines]}])}
  ([] (pst *e))
  ([error] (pst error nil))
  ([error {:keys [lines] :or {lines 40} :as options}]
   (arguments/options "pst" [:lines] options)
   (arguments/whole :lines lines)
   (check-error "pst" error)
   (run! println (if error (pst/lines error lines) ["There is no error to show: *e is nil."]))))
