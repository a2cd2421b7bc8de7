(ns magnetar.nrepl
  "Makes each session of an nREPL server a process, for Calva, CIDER and Conjure.

  wrap-session   the middleware

    {:middleware [magnetar.nrepl/wrap-session]}    ; in the project's .nrepl.edn

  CIDER, Calva and Leiningen name it in settings of their own. See docs/guide/prompt.md.

  A typed `(self)` is the process of the session, `receive` takes its messages, and links to it work.
  Magnetar does not depend on nREPL, and uses the program's. `bin/magnetar repl --nrepl` starts a server
  with the middleware. Middleware that sets :eval of a message after this one has seen it replaces the
  evaluation in the process, as CIDER's debugger does for the forms that it instruments.

  Require it as `[magnetar.nrepl :as nrepl]`."
  (:require
   [magnetar.impl.runtime]
   [magnetar.nrepl.session :as session])
  (:import
   (java.io FileNotFoundException)))

(set! *warn-on-reflection* true)

(def ^:private evaluating #{"eval" "load-file"})

(defn- in-its-process [{:keys [session] :as message} handler]
  (session/adopt session)
  (let [message (session/of-session message)]
    (binding [session/*message* message]
      (handler message))))

(defn wrap-session
  "Returns the handler with each lasting session of nREPL as a process.

  The process starts with the first evaluation of the session and ends with `close`, for the reason :shutdown.
  It has exited when the answer to `close` comes. If it exits earlier, by a link or by `exit`, the answer says
  \"** exited: ..\" and the session goes on in a new process; *ns*, *1 *2 *3 and *e stay.

  A session and its process outlive the connection until `close`, as nREPL has it. An evaluation that waits
  goes on waiting, and answers to a client that is gone are dropped. Any other connection can use, interrupt
  or close the session. The op `ls-sessions` lists the sessions. Each process is labelled with \"nrepl-
  session-\" and the beginning of the id.

  An interrupt ends a wait, such as a `receive`, and so does `close`. Code that computes and looks at no
  interrupt is abandoned after 2 seconds, and the answer says so. The session goes on in a new process. The
  old process is killed: its links get :killed, and it keeps its name until its code ends or waits. What the
  code prints or returns is dropped, and does not change the session. Messages without a session are left to
  nREPL.

  Example:

    (nrepl/wrap-session handler)"
  {:added "0.2"}
  [handler]
  (fn [{:keys [op session] :as message}]
    (if (and (evaluating op) (session/lasting? session))
      (in-its-process message handler)
      (handler message))))

(defn- var-of [named]
  (try (requiring-resolve named)
       (catch FileNotFoundException _ nil)))

(defn- descriptor
  "nREPL's printing comes after the middleware. So nothing of an evaluation that was abandoned is printed to the client."
  []
  {:requires #{"clone"}
   :expects (into #{"eval" "load-file"} (keep var-of) ['nrepl.middleware.print/wrap-print])
   :handles {}})

(when-some [set-descriptor (var-of 'nrepl.middleware/set-descriptor!)]
  (set-descriptor #'wrap-session (descriptor)))
