(ns magnetar.debian-nrepl-test
  "The middleware in Debian's nREPL 1.0.0, asked by the client in the same jar. The launcher fetches it."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str]
   [clojure.test :refer [deftest is use-fixtures]]
   [magnetar.actor :as actor]
   [magnetar.dev.processes :refer [launcher magnetar temporary-folder write]]
   [magnetar.inspect :as inspect]
   [magnetar.nrepl]
   [nrepl.core :as client]
   [nrepl.server :as server]
   [nrepl.transport :as transport])
  (:import
   (java.net JarURLConnection Socket)
   (java.util List)))

(set! *warn-on-reflection* true)

(def ^:private ^:dynamic *port* nil)

(use-fixtures :each
  (fn [f]
    (with-open [server ^java.io.Closeable (server/start-server :bind "127.0.0.1" :port 0
                                            :handler (server/default-handler (requiring-resolve 'magnetar.nrepl/wrap-session)))]
      (binding [*port* (:port server)]
        (f)))))

(defn- connect ^java.io.Closeable []
  (client/connect :host "127.0.0.1" :port *port*))

(defn- ask [c message]
  (client/combine-responses (client/message c message)))

(defn- ended
  "Why the process ended."
  [pid f]
  (actor/with-process {}
    (let [reference (actor/monitor pid)]
      (f)
      (actor/receive [:DOWN reference _ _ why] why))))

(def ^:private of-session (atom nil))

(defn- with-session
  "Calls f with a function that evaluates code, and one that sends other messages of the session. Its process ends with `close`."
  [f]
  (with-open [connection (connect)]
    (let [c (client/client connection 30000)
          id (client/new-session c)
          send #(ask c (assoc % :session id))
          code #(send {:op "eval", :code %})]
      (code "(require '[magnetar.actor :refer [! self receive exit spawn-link]])")
      (f code send)
      (code "(reset! @#'magnetar.debian-nrepl-test/of-session (magnetar.actor/self))")
      (is (= :shutdown (ended @of-session #(is (contains? (:status (send {:op "close"})) "session-closed"))))))))

(deftest a-session-is-a-process
  (with-session
    (fn [code _]
      (is (= [":x" "[:got :x]"] (:value (code "(! (self) :x) (receive m [:got m])"))))
      (is (= (:value (code "(self)")) (:value (code "(self)"))))
      (is (= "** exited: :bye\n" (:out (code "(exit :bye) (println :never)"))))
      (is (= ["#'user/a" "41"] (:value (code "(def a 41) a"))))
      (is (= "** exited: :boom\n" (:out (code "(let [child (spawn-link (fn [] (receive :go (exit :boom))))] (! child :go) @(promise))")))))))

(deftest values-namespace-and-streams-are-those-of-the-session
  (with-session
    (fn [code send]
      (is (= ["42"] (:value (code "(inc 41)"))))
      (is (= ["[42 nil]"] (:value (code "[*1 *2]"))))
      (is (= #{"eval-error" "done"} (:status (code "(/ 1 0)"))))
      (is (= ["\"Divide by zero\""] (:value (code "(ex-message *e)"))))
      (is (= [":out\n" ":err\n"] ((juxt :out :err) (code "(println :out) (binding [*out* *err*] (println :err))"))))
      (is (= "elsewhere" (:ns (code "(ns elsewhere)"))))
      (is (= "** exited: :bye\n" (:out (code "(magnetar.actor/exit :bye)"))))
      (is (= ["\"elsewhere\""] (:value (code "(str *ns*)"))))
      (is (contains? (:status (code "(def")) "eval-error"))
      (is (= ["7"] (:value (send {:op "load-file", :file "(ns loaded.file) (def seven 7) seven", :file-name "file.clj", :file-path "loaded/file.clj"})))))))

(defn- interrupted
  "The answers to the code after an interrupt, which is sent once the code runs."
  [c id code]
  (let [begun (reset! of-session (promise))
        message (str (random-uuid))
        answers (future (ask c {:op "eval", :session id, :id message
                                :code (str "(do (deliver @@#'magnetar.debian-nrepl-test/of-session 1) " code ")")}))]
    @begun
    (ask c {:op "interrupt", :session id, :interrupt-id message})
    @answers))

(deftest an-interrupt-ends-a-wait-and-abandons-what-computes
  (with-open [connection (connect)]
    (let [c (client/client connection 30000)
          id (client/new-session c)
          code #(:value (ask c {:op "eval", :session id, :code %}))]
      (is (= #{"interrupted" "done"} (:status (interrupted c id "(magnetar.actor/receive :never 1) (println :never)"))))
      (is (= #{"interrupted" "done"} (:status (interrupted c id "(require 'clojure.core.reducers :reload) (magnetar.actor/receive :never 1)"))))
      (is (= ["41"] (code "(inc 40)")))
      (is (re-find #"computes on.* It is abandoned" (str (:err (interrupted c id "(while @@#'magnetar.debian-nrepl-test/of-session)")))))
      (is (contains? (:status (ask c {:op "interrupt", :session id})) "session-idle"))
      (is (= ["41"] (code "*1")))
      (reset! of-session nil)
      (is (contains? (:status (ask c {:op "close", :session id})) "session-closed")))))

(defn- raw
  "Sends the message; returns all that comes up to the end of its answers."
  [connection message]
  (transport/send connection message)
  (loop [answers []]
    (let [{:keys [id status] :as answer} (transport/recv connection 30000)
          answers (conj answers answer)]
      (if (or (nil? answer) (and (= (:id message) id) (some #{"done"} status)))
        answers
        (recur answers)))))

(defn- of-abandoned
  "Interrupts the code, which goes on until of-session is nil. Returns what came under its id once it was done."
  [connection session code options]
  (let [begun (reset! of-session (promise))]
    (transport/send connection
                    (merge {:op "eval", :session session, :id "computes"
                            :code (str "(do (deliver @@#'magnetar.debian-nrepl-test/of-session (Thread/currentThread)) " code ")")}
                           options))
    (let [^Thread thread @begun]
      (raw connection {:op "interrupt", :session session, :id "stop"})
      (reset! of-session nil)
      (.join thread)
      (filter #(= "computes" (:id %)) (raw connection {:op "eval", :session session, :id "after", :code "(def after 1)"})))))

(deftest an-abandoned-evaluation-sends-no-answer
  (with-open [^java.io.Closeable connection (connect)]
    (let [id (:new-session (first (raw connection {:op "clone", :id "clone"})))]
      (is (= [] (of-abandoned connection id "(while @@#'magnetar.debian-nrepl-test/of-session) (println :late) :value" {})))
      (is (= [] (of-abandoned connection id "(take-while (fn [_] @@#'magnetar.debian-nrepl-test/of-session) (range))"
                              {:nrepl.middleware.print/stream? 1}))
          "nor chunks of a value that is being printed")
      (raw connection {:op "close", :session id, :id "close"}))))

(deftest stdin-is-asked-for
  (with-open [connection (connect)]
    (let [c (client/client connection 30000)
          id (client/new-session c)
          answers (client/message c {:op "eval", :session id, :id "in", :code "(read-line)"})]
      (is (= ["need-input"] (:status (first answers))))
      (with-open [other (connect)]
        (ask (client/client other 30000) {:op "stdin", :session id, :stdin "typed\n"}))
      (is (= ["\"typed\""] (:value (client/combine-responses (rest answers)))))
      (is (contains? (:status (ask c {:op "close", :session id})) "session-closed")))))

(deftest a-cloned-session-has-the-bindings-and-a-process-of-its-own
  (with-open [connection (connect)]
    (let [c (client/client connection 30000)
          id (client/new-session c)
          code #(:value (ask c {:op "eval", :session %1, :code %2}))]
      (code id "(set! *print-length* 3)")
      (let [copy (:new-session (ask c {:op "clone", :session id}))]
        (is (= ["3"] (code copy "*print-length*")))
        (is (not= (code id "(magnetar.actor/self)") (code copy "(magnetar.actor/self)")))
        (is (= #{"error" "unknown-session" "done"} (:status (ask c {:op "eval", :session "nowhere", :code "1"}))))
        (run! #(is (contains? (:status (ask c {:op "close", :session %})) "session-closed")) [id copy])))))

(defn- begin-and-leave
  "Evaluates the code in the session from a connection that is closed once it runs. Returns the pid of the session."
  [id code]
  (let [begun (reset! of-session (promise))]
    (with-open [connection (connect)]
      ((client/client connection 30000)
       {:op "eval", :session id, :id "left"
        :code (str "(do (deliver @@#'magnetar.debian-nrepl-test/of-session (magnetar.actor/self)) " code ")")})
      @begun)))

(deftest a-session-outlives-its-client-and-any-other-goes-on-with-it
  (with-open [connection (connect)]
    (let [c (client/client connection 30000)
          id (with-open [first-one (connect)]
               (client/new-session (client/client first-one 30000)))
          pid (begin-and-leave id "(magnetar.actor/receive :go :gone)")]
      (is (some #{id} (:sessions (ask c {:op "ls-sessions"}))))
      (actor/! pid :go)
      (is (= [(pr-str pid)] (:value (ask c {:op "eval", :session id, :code "(magnetar.actor/self)"}))))
      (is (= pid (begin-and-leave id "(magnetar.actor/receive :never 1)")))
      (is (= #{"done"} (:status (ask c {:op "interrupt", :session id, :interrupt-id "left"}))))
      (is (= ["3"] (:value (ask c {:op "eval", :session id, :code "(+ 1 2)"}))))
      (is (= pid (begin-and-leave id "(magnetar.actor/receive :never 1)")))
      (is (= :shutdown (ended pid #(ask c {:op "close", :session id})))))))

(defn- left
  "The processes and the threads of sessions. nREPL ends its own thread of a session within 5 seconds."
  []
  (concat (filter #(str/includes? (str %) "nrepl-session-") (map :pid (inspect/processes)))
    (filter #(str/starts-with? (Thread/.getName %) "nREPL-session-") (keys (Thread/getAllStackTraces)))))

(defn- send-raw [^String text]
  (with-open [socket (Socket. "127.0.0.1" (int *port*))]
    (.write (.getOutputStream socket) (.getBytes text))))

(deftest bytes-that-are-no-message-and-messages-without-sense-disturb-no-session
  (with-session
    (fn [code send]
      (let [me (:value (code "(self)"))]
        (run! send-raw ["hello\n" "d2:op4:evalX" "d2:op" "GET / HTTP/1.1\r\n\r\n"])
        (is (contains? (:status (send {:op "nope"})) "unknown-op"))
        (is (contains? (:status (send {:op "eval"})) "no-code"))
        (is (= me (:value (code "(self)"))))))))

(defn- soon? [f]
  (let [deadline (+ (System/nanoTime) 10000000000)]
    (loop []
      (or (f) (and (< (System/nanoTime) deadline) (do (Thread/onSpinWait) (recur)))))))

(deftest sessions-that-are-closed-leave-no-process-and-no-thread
  (with-open [connection (connect)]
    (let [c (client/client connection 30000)
          ids (vec (repeatedly 20 #(client/new-session c)))]
      (doseq [id ids]
        (ask c {:op "eval", :session id, :code "(magnetar.actor/spawn-link #(magnetar.actor/receive :never 1))"}))
      (run! #(begin-and-leave % "(magnetar.actor/receive :never 1)") (take 5 ids))
      (is (= 20 (count (filter #(str/includes? (str %) "nrepl-session-") (map :pid (inspect/processes))))))
      (run! #(ask c {:op "close", :session %}) ids)
      (is (soon? #(empty? (left))) (pr-str (left))))))

;; ---- the launcher

(defn- jar []
  (.getPath (.getJarFileURL ^JarURLConnection (.openConnection (io/resource "nrepl/server.clj")))))

(defn- project
  "A folder of a project with nREPL, a middleware of its own, and this configuration of nREPL."
  [configuration]
  (let [folder (temporary-folder)]
    (write folder "deps.edn" (pr-str {:paths ["."], :deps {'nrepl/nrepl {:local/root (jar)}}}))
    (write folder "counts.clj" "(ns counts) (def ops (atom [])) (defn wrap [handler] (fn [message] (swap! ops conj (:op message)) (handler message)))
                                (def all ['counts/wrap])")
    (write folder ".nrepl.edn" configuration)
    folder))

(deftest ^{:limit 180000} the-launcher-starts-the-nrepl-of-the-project-with-its-middleware
  (let [folder (project "{:middleware [counts/all]}")
        command ^List (vector launcher "repl" "--nrepl" "--port=0")
        process (.start (doto (ProcessBuilder. command) (.directory folder)))]
    (try
      (let [line (.readLine ^java.io.BufferedReader (io/reader (.getInputStream process)))
            [_ port] (re-find #"nREPL on 127\.0\.0\.1:(\d+), port in \.nrepl-port" (str line))]
        (is (= port (str/trim (slurp (io/file folder ".nrepl-port")))))
        (binding [*port* (parse-long port)]
          (with-open [connection (connect)]
            (let [c (client/client connection 30000)
                  code #(:value (ask c {:op "eval", :session %1, :code %2}))
                  id (client/new-session c)]
              (is (= ["[:got :x]"] (code id "(do (! (self) :x) (receive m [:got m]))")))
              (is (= ["[\"clone\" \"eval\" \"eval\"]"] (code id "@counts/ops")))))))
      (finally (.destroy process)))
    (.waitFor process)
    (is (not (.exists (io/file folder ".nrepl-port"))))))

(deftest ^{:limit 180000} a-configuration-that-does-not-work-is-refused-in-a-sentence
  (doseq [[configuration why] {"{:middleware [counts/nothing]}" #"magnetar: the middleware counts/nothing in nREPL's configuration does not load: there is no such var\."
                               "{:middleware counts.nowhere/wrap}" #"magnetar: the middleware counts\.nowhere/wrap .* does not load: Could not locate .* on classpath\.$"
                               "{:middleware [" #"magnetar: nREPL cannot read its configuration, \.nrepl\.edn: EOF while reading"}
          :let [{:keys [exit err]} (magnetar {:folder (project configuration)} "repl" "--nrepl")]]
    (is (= 2 exit))
    (is (re-find why err))))

(deftest without-an-nrepl-the-launcher-says-how-to-add-one
  (let [{:keys [exit err]} (magnetar {:folder (temporary-folder)} "repl" "--nrepl")]
    (is (= 2 exit))
    (is (re-find #"there is no nREPL on the class path: add it to :deps in the project's deps.edn, as in nrepl/nrepl" err))))
