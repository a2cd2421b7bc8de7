(ns magnetar.trace
  "Shows what a program does: its calls, messages, and steps of transducers.

  trace-vars, trace-ns      print the tree of calls of functions
  untrace-vars, untrace-ns  end that
  trace                     prints a value, and returns it
  trace-forms               prints which form threw an exception
  condv                     prints which clause of a cond, case or receive is taken
  printfv, with-verbose     print a message where the program asks for that much
  step, xf                  tell of what passes a step of a transducer, as on a channel
  messages, stop            print the messages of processes, until a limit
  events, diagram           what was traced, as data and as a diagram

  A line begins with the process, fiber or thread that does the call. It is indented by the calls around it,
  also by calls of the fibers that started this one. Values are cut short, lazy ones are not realized, and
  values and the data of exceptions are shown as `magnetar.inspect/redact-with` allows.

  Names that exist in clojure.tools.trace are the same here.

  Require it as `[magnetar.trace :as trace]`."
  (:require
   [magnetar.impl.arguments :as arguments]
   [magnetar.impl.runtime]
   [magnetar.impl.trace.branches :as branches]
   [magnetar.impl.trace.calls :as calls]
   [magnetar.impl.trace.diagram :as diagrams]
   [magnetar.impl.trace.events :as events]
   [magnetar.impl.trace.forms :as forms]
   [magnetar.impl.trace.messages :as tracers]
   [magnetar.impl.trace.steps :as steps]
   [magnetar.match :as match]
   [magnetar.scope.context :as context])
  (:import
   (clojure.lang Namespace)))

(set! *warn-on-reflection* true)

;; ---- values

(defn trace
  "Prints a value, after a label if one is given, and returns the value.

  Example:

    (inc (trace/trace \"total\" (+ 1 2))) ;=> 4"
  {:added "0.2"}
  ([value] (trace "TRACE" value))
  ([label value]
   (events/write-line *out* (events/text {:event :value, :label label, :value value, :by (events/by), :depth (events/indentation)}))
   value))

;; ---- calls

(defn- names-and-options
  "The arguments of a macro: those that name something, and the map of options behind them."
  [args]
  (if (map? (last args))
    [(butlast args) (last args)]
    [args {}]))

(defn- full-name
  "The symbol as it is meant where the macro stands: a program may run in another namespace."
  [sym]
  (if-some [v (calls/find-var-in *ns* sym)]
    (symbol v)
    (if (namespace sym) sym (symbol (str (ns-name *ns*)) (name sym)))))

(defn- as-values [args]
  (mapv #(if (symbol? %) (list 'quote (full-name %)) %) args))

(defn trace-vars*
  "Traces the functions of vars. The macro `trace-vars` calls it.

  A symbol names a var in *ns*.

  See also `trace-vars`."
  {:added "0.2"}
  ([vars] (trace-vars* vars {}))
  ([vars options]
   (calls/trace-all (calls/vars "trace-vars" *ns* vars) (events/sink "trace-vars" options *out*))))

(defmacro trace-vars
  "Prints each call of the functions, with its arguments, and each result.

  The arguments are symbols or vars, and after them may stand a map of options.

    (trace/trace-vars iseven? isodd?)
    (iseven? 2)
    ; [main] (shop/iseven? 2)
    ; [main] | (shop/isodd? 1)
    ; [main] | | (shop/iseven? 0)
    ; [main] | | => true
    ; [main] | => true
    ; [main] => true

  An exit by an exception is printed as `!!` with the exception. A call that took 10 milliseconds or more has
  its time behind the result, as in `=> true (12 ms)`. A call is indented by the traced calls that
  led to it, also across go blocks, forks and spawned processes. Calls of a function that was loaded again
  meanwhile are printed too. A var that is traced already gets the new options.

  Some calls cannot be seen: those that the compiler replaced (`:inline`, direct linking), those of a protocol
  function on a type that implements the protocol in its `deftype`, `defrecord` or `reify`, and those under a
  `binding` of a dynamic var. A function that was taken out of the var before is not traced either.

  Returns the names of the vars.

  Throws an IllegalArgumentException, and traces nothing, if an argument is not a var that holds a function,
  such as a macro or a multimethod.

  Options:

    :to  a function that gets each event instead of the printed line, as a map: :event (:call, :return or
         :throw), :call (a number, the same for the events of one call), :function, :args, :depth and :by. A
         :return has the :value, and a :throw the :error. Both have :nanos, the nanoseconds that the call
         took. Default: a line on what *out* is now. If it throws, that is reported

  Example:

    (def told (atom []))
    (defn twice [n] (* 2 n))
    (trace/trace-vars twice {:to #(swap! told conj (select-keys % [:event :args :value]))})
    (twice 4)
    @told ;=> [{:event :call, :args [4]} {:event :return, :args [4], :value 8}]

  See also `trace-ns`, `untrace-vars`.

  Erlang: dbg:tpl(Module, Function, x)."
  {:added "0.2" :arglists '([& vars] [var & more {:keys [to]}])}
  [& args]
  (let [[vars options] (names-and-options args)]
    `(trace-vars* ~(as-values vars) ~options)))

(defn untrace-vars*
  "Ends the tracing of vars. The macro `untrace-vars` calls it.

  See also `untrace-vars`."
  {:added "0.2"}
  [vars]
  (calls/untrace-all (if (empty? vars)
                       (mapcat calls/of-namespace (all-ns))
                       (calls/vars "untrace-vars" *ns* vars))))

(defmacro untrace-vars
  "Ends the tracing of functions: the vars hold again what they held.

  Without arguments it ends the tracing of all functions.

  Returns the names of those that were traced.

  Throws an IllegalArgumentException if an argument is not a var.

  Example:

    (trace/untrace-vars magnetar.trace/trace) ;=> []

  See also `trace-vars`."
  {:added "0.2"}
  [& vars]
  `(untrace-vars* ~(as-values vars)))

(defn- as-namespace
  "The argument of `trace-ns` as code: a symbol is quoted unless it is a local or a var."
  [env x]
  (if (and (symbol? x) (not (contains? env x)) (or (find-ns x) (nil? (calls/find-var-in *ns* x))))
    (list 'quote x)
    x))

(defn trace-ns*
  "Traces the functions of a namespace. The macro `trace-ns` calls it.

  See also `trace-ns`."
  {:added "0.2"}
  ([namespace] (trace-ns* namespace {}))
  ([namespace options]
   (let [sink (events/sink "trace-ns" options *out*)
         ^Namespace ns (calls/namespace-of "trace-ns" namespace)]
     (calls/trace-all (filter calls/traceable? (calls/of-namespace ns)) sink))))

(defmacro trace-ns
  "Prints each call of the functions of a namespace, private ones too.

  The argument is a namespace or its name, quoted or not. What is not a function is left alone, and so are
  functions that are defined later.

  Returns the names of the vars that are traced.

  Throws an IllegalArgumentException if there is no such namespace, or if it is one that the tracer uses, such
  as clojure.core.

  Options: as for `trace-vars`.

  Example:

    (trace/trace-ns my.shop)
    (trace/trace-ns 'my.shop {:to tap>})

  See also `trace-vars`, `untrace-ns`."
  {:added "0.2" :arglists '([namespace] [namespace {:keys [to]}])}
  ([namespace] `(trace-ns ~namespace {}))
  ([namespace options]
   `(trace-ns* ~(as-namespace &env namespace) ~options)))

(defn untrace-ns*
  "Ends the tracing of a namespace. The macro `untrace-ns` calls it.

  See also `untrace-ns`."
  {:added "0.2"}
  [namespace]
  (calls/untrace-all (calls/of-namespace (calls/namespace-of "untrace-ns" namespace))))

(defmacro untrace-ns
  "Ends the tracing of all functions of a namespace.

  Returns the names of those that were traced.

  See also `trace-ns`."
  {:added "0.2"}
  [namespace]
  `(untrace-ns* ~(as-namespace &env namespace)))

(defn traced?
  "Returns true if the var is traced. A symbol names a var in *ns*.

  Example:

    (trace/traced? 'clojure.core/slurp) ;=> false"
  {:added "0.2"}
  [var]
  (boolean (some-> (calls/find-var-in *ns* var) calls/traced?)))

(defn traceable?
  "Returns true if `trace-vars` accepts the var: it holds a function.

  Macros, multimethods and values are not traceable. A symbol names a var in *ns*.

  Example:

    (map trace/traceable? '[clojure.core/slurp clojure.core/when]) ;=> (true false)"
  {:added "0.2"}
  [var]
  (boolean (some-> (calls/find-var-in *ns* var) calls/traceable?)))

;; ---- forms

(defmacro trace-forms
  "Evaluates body; if it throws, prints the form that threw.

    (trace/trace-forms
      (let [share (/ total (count buyers))]
        (* 2 share)))
    ; [main] !! java.lang.ArithmeticException: Divide by zero; in (/ total (count buyers)) at shop.clj:2 ..

  The forms around that one follow. The same exception is rethrown. It carries the forms, as
  `:magnetar.trace/forms` in the data of a suppressed exception, and `magnetar.report/pst` shows them. It also
  carries them if body catches it, or if a function made in body throws later or on another fiber. In these
  cases nothing is printed.

  Forms are what stands in the source, not what macros make of it. Macros in body expand as usual. `recur`
  works within body, but not to a loop around `trace-forms`, because of a `try`. The methods of `reify` and
  `deftype` are not traced inside. The code grows: a very large function may exceed what the JVM allows for a
  method.

  Returns the value of the last form.

  Blocks as body does.

  Throws what body throws.

  Cancellation: as for body. A cancellation and the retry of a `dosync` are not printed. A StackOverflowError
  is printed, and carries no forms. Nor does an exception that the JVM itself has thrown so often at one place
  that it leaves out the stack trace. An OutOfMemoryError is not printed.

  Options: in a map before the forms:

    :to  a function that gets an event instead of the printed line, as a map: :event (:throw), :error, :forms
         (texts, the innermost first), :by and :depth. Default: a line on what *out* is.

  Example:

    (def told (atom nil))
    (try (trace/trace-forms {:to #(reset! told (first (:forms %)))} (inc (/ 1 0)))
         (catch ArithmeticException e (ex-message e))) ;=> \"Divide by zero\"
    (subs @told 0 7) ;=> \"(/ 1 0)\"

  See also `condv`, `magnetar.report/pst`."
  {:added "0.2" :arglists '([& body] [{:keys [to]} & body])}
  [& _]
  (forms/whole &form))

;; ---- branches

(defmacro condv
  "Evaluates a form that chooses a branch, and prints which clause it takes.

  The form is a `cond`, `condp`, `case`, `if-let`, `if-some`, `cond->`, `cond->>` or `magnetar.actor/receive`.
  Several arguments are read as the clauses of a `cond`.

    (trace/condv (case colour
                   :red 1
                   (:green :blue) 2))
    ; [main] case at shop.clj:12, of :blue: clause 2, (:green :blue)

  The line is printed before the branch is evaluated. If the test that held uses local variables, the line
  shows them; for an `:else`, those of the tests before. A `cond->` has a line for each of its clauses that is
  taken.

  For a `receive`, a line is printed for each message that it tries, once. The line names the clause that
  matches, and says why each earlier clause does not. To find the reasons, patterns and guards are evaluated
  again, so a guard with side effects has them twice. Under a redaction the reasons show no values.

  Branches stay in tail position, so `recur` works.

  Returns what the form returns.

  Blocks as the form does.

  Throws what the form throws. An IllegalArgumentException at compilation, if it is another form.

  Cancellation: as for the form.

  Options: in a map before the form:

    :to  a function that gets each event instead of the printed line. Default: a line on what *out* is. An
         event is a map of

           :event          :branch, or :skip for a message that a receive leaves in the mailbox
           :form, :place   the name of the macro, and a text with its line
           :by, :depth     what does it, and how deep in traced calls
           :clause         the test, pattern or constants as text, \"then\", \"else\" or \"the default\"; nil if
                           no clause is taken
           :number         of the clause, from 1, where it has one
           :value          what a `case`, `condp`, `if-let`, `if-some` or `receive` looks at
           :locals         of a `cond`, `cond->` and `cond->>`: a map of the local variables in the test. If
                           it uses none, as an `:else`, or if no clause is taken: of all tests before
           :others         of a `receive`: [number clause reason] of each clause that does not match

  Example:

    (def told (atom []))
    (defn sign [n]
      (trace/condv {:to #(swap! told conj (select-keys % [:number :clause]))}
                   (cond (neg? n) :below (pos? n) :above)))
    (sign 3) ;=> :above
    @told ;=> [{:number 2, :clause \"(pos? n)\"}]

  See also `trace-vars`."
  {:added "0.2" :arglists '([form] [{:keys [to]} form] [test branch & more])}
  [& _]
  (branches/expand &env &form))

;; ---- messages of a level

(def ^:private verbosity (context/context `verbosity 0))

(defn with-verbose*
  "Calls f with the level. The macro `with-verbose` calls it.

  See also `with-verbose`."
  {:added "0.2"}
  [level f]
  (context/context* {verbosity (arguments/from-zero "with-verbose" level)} f))

(defmacro with-verbose
  "Does body with a level: `printfv` prints messages of this level and below.

  The level is a context value. So it also holds in the go blocks, forks and processes that body starts.

  Returns the value of body.

  Throws an IllegalArgumentException if level is not a whole number from 0.

  Example:

    (with-out-str (trace/with-verbose 1
                    (trace/printfv 1 \"%d orders\" 3)
                    (trace/printfv 2 \"all of them: %s\" [1 2 3]))) ;=> \"3 orders\\n\"

  See also `printfv`, `verbose`."
  {:added "0.2"}
  [level & body]
  `(with-verbose* ~level (fn [] ~@body)))

(defn verbose
  "Returns the level of the innermost `with-verbose`, as the fiber inherits it.

  Returns 0 outside of any.

  Example:

    (trace/verbose) ;=> 0"
  {:added "0.2"}
  []
  @verbosity)

(defn wanted?
  "Returns true if `printfv` prints messages of this level here.

  Throws an IllegalArgumentException if level is not a whole number above 0.

  Example:

    (trace/with-verbose 2 (mapv trace/wanted? [2 3])) ;=> [true false]"
  {:added "0.2"}
  [level]
  (<= (arguments/whole "printfv" level) (long (verbose))))

(defn printfv*
  "Prints a message as a line. The macro `printfv` calls it.

  See also `printfv`."
  {:added "0.2"}
  [text & args]
  (events/write-line *out* (apply format text args)))

(defmacro printfv
  "Prints a message as a line if the program asks for messages of its level.

  The format and its arguments are those of `format`. If the level is above that of `with-verbose`, they are
  not evaluated. Without `with-verbose` nothing is printed. The line is written at once, so lines of several
  fibers do not mix.

  Returns nil.

  Throws an IllegalArgumentException if level is not a whole number above 0, or as `format` does.

  Example:

    (trace/with-verbose 1 (trace/printfv 2 \"%s\" (/ 1 0))) ;=> nil

  See also `with-verbose`."
  {:added "0.2"}
  [level text & args]
  `(when (wanted? ~level)
     (printfv* ~text ~@args)))

;; ---- steps of transducers

(defn step
  "Returns a transducer that passes each value on, and prints it with the label.

  It also prints when the input is complete, and when a later step ends the reduction early. On a channel the
  line begins with the fiber that runs the step, usually the one that puts the value. A channel may complete a
  transducer once more when a value is taken after the end, as channels of core.async do.

  Throws an IllegalArgumentException for an unknown option.

  Options:

    :to  a function that gets each event instead of the printed line, as a map: :event (:value, :complete,
         :reduced or :throw), :label, :by, :depth, and :value or :error. Default: a line on what *out* is now.

  Example:

    (def told (atom []))
    (defn tell [event] (swap! told conj ((juxt :event :value) event)))
    (into [] (comp (map inc) (trace/step :order {:to tell}) (take 1)) [1 2 3]) ;=> [2]
    @told ;=> [[:value 2] [:reduced nil] [:complete nil]]

  See also `xf`."
  {:added "0.2" :arglists '([label] [label {:keys [to]}])}
  ([label] (step label {}))
  ([label options]
   (steps/step label (events/sink "step" options *out*))))

(defn xf
  "Returns the transducer xf with its inputs and outputs printed.

  It also prints when the input is complete, when xf or a later step ends the reduction early, and when xf or
  a later step throws.

  Throws an IllegalArgumentException for an unknown option, or if xf is not a function.

  Options: as for `step`. The :event of an input is :in, and :out of an output.

  Example:

    (def told (atom []))
    (defn tell [event] (swap! told conj ((juxt :event :value) event)))
    (into [] (trace/xf \"even\" (filter even?) {:to tell}) [1 2]) ;=> [2]
    @told ;=> [[:in 1] [:in 2] [:out 2] [:complete nil]]

  See also `step`."
  {:added "0.2" :arglists '([label xf] [label xf {:keys [to]}])}
  ([label xf] (magnetar.trace/xf label xf {}))
  ([label xf options]
   (arguments/function "trace/xf" xf "(trace/xf \"even\" (filter even?))")
   (steps/around-xf label xf (events/sink "xf" options *out*))))

;; ---- messages

(defn messages*
  "Traces messages. The macro `messages` calls it.

  Here :match is a function of a message.

  See also `messages`."
  {:added "0.2"}
  [options]
  (tracers/start options *out*))

(defmacro messages
  "Prints the messages that processes send and take, until a limit is reached.

    (trace/messages {:limit 8})
    (gen-server/call :shelf [:take :apple])
    ; [:till] sends 1 to :shelf, call: [:take :apple], at shop.clj:7
    ; [:shelf] takes 1: [:take :apple]
    ; [:shelf] sends 2 to :till, answer: :ok; because of 1
    ; [:till] takes 2: :ok

  Each message has a number. `because of 1` means that message 1 caused this one: it was the last one that
  the sender had taken, or the code that started the sender. This also holds across several go blocks, forks,
  tasks and spawned processes. A message is lost if there is no process, no room, or no caller that still
  waits for this answer. A message is not handled if it was taken by a server that has no callback or
  transition for it. It stays in the mailbox if no clause of a `receive` matches it: see `condv`. A message
  that a :drop-old mailbox drops has a :send and no :take.

  The trace ends at its limit, by `stop`, or at the first message after its caller has ended: the process,
  fiber or thread. There may be several traces at once, each with its own numbers. A trace slows the program a
  little and never stops it: a fiber of its own tells the events. If the events come faster than they are
  told, up to 1,000 wait and the others are dropped and counted.

  Returns the trace, for `events`, `diagram` and `stop`.

  Throws an IllegalArgumentException if there is no :limit, or for an unknown option.

  Options:

    :limit  the number of events after which the trace ends. Necessary, since a busy program sends more
            messages than a person can read
    :match  which messages: a pattern, as in `receive`. A call matches by its request, and the answer to a
            call that matches is shown too. Default: all. If the options are not written as a map, as
            `(trace/messages options)`, and for `messages*`, it is a function of a message. It is evaluated
            where the message is sent, of a timer on the timer's thread, so it has to be short. If it throws,
            that is reported once, and the message is not shown
    :rate   how many messages a second, at most. Further ones are dropped and counted. Default: no limit
    :to     a function that gets each event instead of the printed line. Default: a line on what *out* is now.
            If it throws, that is reported. What it sends is not traced. Values are given as they are, and not
            as `magnetar.inspect/redact-with` shows them. An event is a map of

              :event    :send, :take, :lost, :unhandled, or :end, the last event
              :number   of the message. A message that was sent before the trace began has no number
              :by, :to  what sends or takes, and for :send and :lost where the message goes, as texts: a
                        registered name, else a pid, fiber or thread. One process has one text in all of a
                        trace
              :kind     :message, :call, :cast or :answer
              :value    the message, and of a call, cast or answer what it carries
              :line     of a :send, the line of the program that sends; missing for an answer or a timer
              :nanos    the nanoseconds since the trace began
              :cause    the number of the message because of which it is sent, if there is one
              :call     of an answer, the number of the call
              :reason   of the :end: :limit, :stopped or :caller
              :limit    of the :end, the limit
              :dropped  of the :end, how many events were not made or not told

  Example:

    (def traced (trace/messages {:limit 100, :match [:order _], :to (fn [_])}))
    (actor/with-process {}
      (actor/! (actor/self) [:order 7])
      (actor/! (actor/self) :tick))
    (trace/stop traced) ;=> {:events 1, :dropped 0, :reason :stopped}
    (map (juxt :event :number :value) (butlast (trace/events traced))) ;=> ([:send 1 [:order 7]])

  See also `events`, `diagram`, `stop`, `magnetar.actor/trace`.

  Erlang: dbg:tracer, dbg:p(all, m), and recon_trace for its limits."
  {:added "0.2" :arglists '([{:keys [limit match rate to]}])}
  [options]
  (if (and (map? options) (contains? options :match))
    (let [message (gensym "message")
          matches (with-meta `(match/match ~message ~(:match options) true :else false) (meta &form))]
      `(messages* ~(assoc options :match `(fn [~message] ~matches))))
    `(messages* ~options)))

(defn stop
  "Ends a trace of messages; without an argument, all of them.

  Returns a map: :events is the number of its events, :dropped how many were not told, and :reason why it
  ended, one of :stopped, :limit and :caller. For all traces a vector of such maps.

  Blocks until the events are told, at most for a second. The ones that are left are dropped.

  Throws an IllegalArgumentException if the argument is not what `messages` returned.

  Cancellation: throws it if the caller is cancelled. The trace has ended then.

  Example:

    (trace/stop (trace/messages {:limit 10})) ;=> {:events 0, :dropped 0, :reason :stopped}

  See also `messages`."
  {:added "0.2"}
  ([] (tracers/stop-all))
  ([messages] (tracers/stop messages)))

(defn events
  "Returns the events of a trace of messages so far, as a vector.

  They are all up to the limit, also those that :to was too slow for. Messages beyond :rate are missing.
  Values are given as they are, and not as `magnetar.inspect/redact-with` shows them.

  Throws an IllegalArgumentException if the argument is not what `messages` returned.

  See also `messages`."
  {:added "0.2"}
  [messages]
  (tracers/events messages))

(defn diagram
  "Returns a trace of messages as the text of a Mermaid sequence diagram.

  Most tools that show Markdown draw it. An arrow stands where its message was sent. Its label has the number
  and the value, and says if the message was lost or not handled, and because of which message it was sent. It
  also says if the message was not taken: `so far`, if the trace still runs or ended at its limit. The arrow
  of a lost message ends in a cross, the arrow of an answer is dashed. Values are cut short, and shown as
  `magnetar.inspect/redact-with` allows.

  The argument is what `messages` returned, or a vector of its events.

  Throws an IllegalArgumentException if it is neither.

  Example:

    (println (trace/diagram [{:event :send, :number 1, :by \":till\", :to \":shelf\", :kind :cast, :value :count}
                             {:event :take, :number 1, :by \":shelf\", :value :count}]))
    ; sequenceDiagram
    ;   participant p1 as :till
    ;   participant p2 as :shelf
    ;   p1->>p2: 1 cast: :count

  See also `messages`."
  {:added "0.2"}
  [messages]
  (diagrams/text (tracers/events-of messages)))
