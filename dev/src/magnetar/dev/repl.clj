(ns magnetar.dev.repl
  "The prompt of bin/magnetar repl: line editing and history on a terminal, a plain prompt elsewhere,
  and a socket REPL on loopback for editors."
  (:require
   [clojure.core.server :as server]
   [clojure.java.io :as io]
   [clojure.main :as main]
   [clojure.string :as str]
   [magnetar.dev.shell :as shell]
   [magnetar.impl.explain :refer [causes]]
   [magnetar.impl.shell :refer [over?]])
  (:import
   (clojure.lang LineNumberingPushbackReader)
   (java.io PrintStream PrintWriter StringReader Writer)
   (java.net InetSocketAddress ServerSocket Socket)
   (java.nio.charset StandardCharsets)
   (org.jline.reader Candidate Completer CompletingParsedLine EOFError EndOfFileException LineReader LineReaderBuilder ParsedLine Parser Parser$ParseContext UserInterruptException)
   (org.jline.terminal Terminal Terminal$Signal Terminal$SignalHandler TerminalBuilder)
   (org.jline.utils WriterOutputStream)))

(set! *warn-on-reflection* true)

(def ^:private aliases
  "Canonical aliases, as every file and document uses them."
  '[[magnetar.async :as a]
    [magnetar.channel :as channel]
    [magnetar.scope :as scope]
    [magnetar.scope.context :as context]
    [magnetar.fold :as fold]
    [magnetar.resilience :as r]
    [magnetar.actor :as actor]
    [magnetar.gen-server :as gs]
    [magnetar.gen-statem :as statem]
    [magnetar.gen-event :as ge]
    [magnetar.supervisor :as sup]
    [magnetar.inspect :as inspect]
    [magnetar.report :as report]
    [magnetar.trace :as trace]])

(def ^:private port-file ".socket-repl-port")
(def ^:private nrepl-port-file ".nrepl-port")

(defn- exists? [lib]
  (let [path (str/replace (str/replace (name lib) "." "/") "-" "_")]
    (or (io/resource (str path ".clj")) (io/resource (str path "__init.class")))))

(defn load-aliases
  "Loads what exists of Magnetar's namespaces into the current one, under the canonical aliases."
  []
  (apply require (filter #(exists? (first %)) aliases))
  (ns-unmap *ns* 'flush) ; Erlang's takes its place: the prompt flushes by itself
  (refer 'magnetar.actor)
  (require '[clojure.repl :refer [doc source apropos dir find-doc]]
           '[clojure.pprint :refer [pp pprint]]
           '[magnetar.report :refer [explain pst]]))

;; --- reading forms from edited lines

(defn- read-all
  "Forms of `text`; throws when the last one is not complete."
  [text]
  (let [reader (LineNumberingPushbackReader. (StringReader. text))
        eof (Object.)]
    (->> (repeatedly #(read {:eof eof :read-cond :allow} reader))
         (take-while #(not (identical? eof %)))
         (into []))))

(defn incomplete?
  "Does `text` end inside a form, so that the prompt must ask for another line?"
  [text]
  (try (read-all text) false
       (catch RuntimeException e (boolean (re-find #"EOF" (str (ex-message e)))))))

(defn- word-before [line cursor]
  (or (re-find #"[^\s()\[\]{}\"'`@,;]*$" (subs line 0 cursor)) ""))

(defn- parsed [line cursor]
  (let [word (word-before line cursor)]
    (reify CompletingParsedLine
      (escape [_ candidate _] candidate)
      (rawWordCursor [_] (count word))
      (rawWordLength [_] (count word))
      (word [_] word)
      (wordCursor [_] (count word))
      (wordIndex [_] 0)
      (words [_] [word])
      (line [_] line)
      (cursor [_] (int cursor)))))

(defn- parse [^String line cursor context]
  (when (and (= context Parser$ParseContext/ACCEPT_LINE) (incomplete? line))
    (throw (EOFError. -1 -1 "the form is not complete")))
  (parsed line cursor))

(def ^:private parser
  (reify Parser
    (parse [_ line cursor context] (parse line cursor context))))

(defn- names-in [alias]
  (map #(str alias "/" %) (keys (ns-publics (get (ns-aliases *ns*) (symbol alias))))))

(defn completions
  "Names that start with `word` in the current namespace; after alias/, names of the aliased one."
  [word]
  (let [[_ alias] (re-matches #"([^/]+)/.*" word)
        names (if (and alias (get (ns-aliases *ns*) (symbol alias)))
                (names-in alias)
                (concat (map str (keys (ns-map *ns*))) (map #(str % "/") (keys (ns-aliases *ns*)))))]
    (sort (filter #(str/starts-with? % word) names))))

(def ^:private completer
  (reify Completer
    (complete [_ _ line candidates]
      (doseq [^String name (completions (.word ^ParsedLine line))]
        (.add candidates (Candidate. name name nil nil nil nil (not (str/ends-with? name "/"))))))))

(defn- history-file []
  (io/file (or (System/getenv "HOME") (System/getProperty "user.home")) ".magnetar_history"))

(defn- line-reader ^LineReader [terminal]
  (-> (LineReaderBuilder/builder)
      (.terminal terminal)
      (.appName "magnetar")
      (.parser parser)
      (.completer completer)
      (.variable LineReader/HISTORY_FILE (history-file))
      (.variable LineReader/SECONDARY_PROMPT_PATTERN "  ")
      (.option org.jline.reader.LineReader$Option/DISABLE_EVENT_EXPANSION true)
      (.build)))

(defn- prompt []
  (str (ns-name *ns*) "=> "))

(defn- next-forms
  "Forms of the next edited line; `exit` at its end, none after Ctrl-C."
  [^LineReader reader exit begin]
  (begin)
  (try (read-all (.readLine reader ^String (prompt)))
       (catch UserInterruptException _ [])
       (catch EndOfFileException _ [exit])))

(defn- form-reader [reader begin]
  (let [waiting (volatile! [])]
    (fn [_ exit]
      (while (and (empty? @waiting) (not (over?))) (vreset! waiting (next-forms reader exit begin)))
      (let [form (if (seq @waiting) (first @waiting) exit)]
        (vswap! waiting rest)
        form))))

(defn ctrl-c
  "What Ctrl-C does while forms of a line are done, and what is done when a line begins, both functions. The first two interrupt. After the
  first, `say` is called if the line `goes-on?`. The third leaves: nothing else ends a form that looks at no interrupt."
  [{:keys [interrupt goes-on? say leave]}]
  (let [times (atom 0)]
    [#(let [n (long (swap! times inc))]
        (if (< n 3) (interrupt) (leave))
        (when (and (= 1 n) (goes-on?)) (say)))
     #(reset! times 0)]))

(defn- say-on-err [sentence]
  (binding [*out* *err*]
    (println sentence)
    (flush)))

(defn- say-it-goes-on [^Thread evaluator]
  (say-on-err (str (if (= Thread$State/RUNNABLE (.getState evaluator)) "This form computes on: it looks at no interrupt." "This form waits on.")
                   " The third Ctrl-C ends the JVM.")))

(defn- leave []
  (say-on-err "magnetar: what runs here does not end at Ctrl-C; the JVM ends at the third.")
  (System/exit 130))

(defn- handle-ctrl-c
  "Lets Ctrl-C interrupt this thread; returns what is to be called when a line begins."
  [^Terminal terminal]
  (let [evaluator (Thread/currentThread)
        ended (atom (promise))
        [pressed begin] (ctrl-c {:interrupt #(.interrupt evaluator)
                                 :goes-on? #(not (deref @ended 1000 false))
                                 :say #(say-it-goes-on evaluator)
                                 :leave leave})]
    (.handle terminal Terminal$Signal/INT
             (reify Terminal$SignalHandler (handle [_ _] (pressed))))
    (fn []
      (deliver @ended true)
      (reset! ended (promise))
      (begin))))

(defn- text-of
  "The text that a Writer is given: a string, an array of characters, or one character as a number."
  [x]
  (cond
    (string? x) x
    (int? x) (str (char x))
    :else (String. ^chars x)))

(defn above
  "A Writer to `out`. While the reader reads a line, what is written stands above that line, and not in it."
  ^Writer [^LineReader reader ^Writer out]
  (let [waiting (StringBuilder.)
        show #(when (pos? (.length waiting))
                (.printAbove reader (str waiting))
                (.setLength waiting 0))
        put (fn [^String text]
              (locking waiting
                (if (.isReading reader)
                  (do (.append waiting text)
                      (when (str/ends-with? text "\n") (show)))
                  (do (show)
                      (.write out text)))))]
    (proxy [Writer] []
      (write
        ([x] (put (text-of x)))
        ([x offset length] (put (subs (text-of x) offset (+ (int offset) (int length))))))
      (flush []
        (locking waiting (show))
        (.flush out))
      (close []))))

(defn- edited-repl []
  (with-open [terminal (-> (TerminalBuilder/builder) (.system true) (.build))]
    (let [begin (handle-ctrl-c terminal)
          reader (line-reader terminal)
          errors (above reader *err*)]
      (System/setErr (PrintStream. (WriterOutputStream. errors StandardCharsets/UTF_8) true StandardCharsets/UTF_8)) ; where reports go
      (binding [*out* (above reader *out*)
                *err* (PrintWriter. errors true)]
        (shell/repl {:init load-aliases
                     :prompt (constantly nil)
                     :need-prompt (constantly false)
                     :read (form-reader reader begin)})))))

;; --- the socket, for editors

(defn serve
  "One client of the socket REPL, a process of its own: the aliases are loaded, then it is Clojure's."
  []
  (shell/repl {:init #(do (in-ns 'user) (load-aliases))
               :read server/repl-read}))

(defn- port-in [file]
  (when (.exists (io/file file))
    (parse-long (str/trim (slurp file)))))

(defn- alive?
  "Does a server listen on the port?"
  [port]
  (try (with-open [socket (Socket.)]
         (.connect socket (InetSocketAddress. "127.0.0.1" (int port)) 500)
         true)
       (catch Exception _ false)))

(defn- delete-at-end [file port]
  (.addShutdownHook (Runtime/getRuntime)
                    (Thread. ^Runnable #(when (= port (port-in file)) (io/delete-file file true)))))

(defn note-port
  "Writes the port to the file, until the JVM ends. The file of another server that is alive is left. Returns what it did."
  [file port]
  (let [other (port-in file)]
    (if (and other (not= other port) (alive? other))
      (str file " stays: it names another server that is alive, on port " other)
      (do (spit file (str port "\n"))
          (delete-at-end file port)
          (str "port in " file)))))

(defn start-socket
  "Starts a socket REPL on loopback, port 0 for any free one, and writes its port file. Returns the port."
  [port]
  (let [^ServerSocket socket (server/start-server {:name "magnetar" :address "127.0.0.1" :port port
                                                   :accept 'magnetar.dev.repl/serve
                                                   :server-daemon true})
        port (.getLocalPort socket)]
    (println (str "Socket REPL on 127.0.0.1:" port ", " (note-port port-file port)))
    port))

(defn- leave-with [sentence]
  (say-on-err (str "magnetar: " sentence))
  (System/exit 2))

(defn- nrepl-function [named]
  (try (requiring-resolve named)
       (catch java.io.FileNotFoundException _
         (leave-with (str "there is no nREPL on the class path: add it to :deps in the project's deps.edn, as in "
                       "nrepl/nrepl {:mvn/version \"1.3.1\"}, or nrepl/nrepl {:local/root \"/path/to/nrepl.jar\"}.")))))

(defn- reason-of [^Throwable thrown]
  (let [^Throwable cause (last (causes thrown))]
    (str/replace (or (ex-message cause) (.getName (class cause))) #"\.$" "")))

(defn- middleware-of
  "The vars that the symbol or string stands for: it may name a vector of others. Throws an exception that says which does not work."
  [named]
  (let [v (try (or (requiring-resolve (symbol named)) (throw (ex-info "there is no such var" {})))
               (catch Exception e
                 (throw (ex-info (str "the middleware " (pr-str named) " in nREPL's configuration does not load: " (reason-of e)) {}))))]
    (if (sequential? @v) (mapcat middleware-of @v) [v])))

(defn- configured
  "The middleware in nREPL's configuration: .nrepl.edn, which it reads in this folder, over the user's."
  []
  (let [{:keys [middleware]} (try @(nrepl-function 'nrepl.config/config)
                                  (catch Exception e
                                    (throw (ex-info (str "nREPL cannot read its configuration, .nrepl.edn: " (reason-of e)) {}))))]
    (mapcat middleware-of (if (or (nil? middleware) (sequential? middleware)) middleware [middleware]))))

(defn- nrepl-handler []
  (let [ours (requiring-resolve 'magnetar.nrepl/wrap-session)]
    (apply (nrepl-function 'nrepl.server/default-handler) (distinct (concat (configured) [ours])))))

(defn- start-nrepl
  "Starts the nREPL of the class path on loopback, port 0 for any free one, and writes its port file."
  [port]
  (load-aliases) ; a client may be there before the prompt is
  (let [start (nrepl-function 'nrepl.server/start-server)
        handler (try (nrepl-handler)
                     (catch Exception e (leave-with (str (ex-message e) "."))))
        {:keys [port]} (start :bind "127.0.0.1" :port port :handler handler)]
    (println (str "nREPL on 127.0.0.1:" port ", " (note-port nrepl-port-file port)))))

(defn- start-or-leave [what start port]
  (try
    (start port)
    (catch java.io.IOException e
      (leave-with (str "the " what " cannot listen on port " port ": " (ex-message e) ". Leave the port out for a free one.")))))

(defn- start-server [option port]
  (case option
    "--socket" (start-or-leave "socket REPL" start-socket port)
    "--nrepl"  (start-or-leave "nREPL" start-nrepl port)))

(defn- terminal? []
  (if-let [console (System/console)] (.isTerminal console) false))

(defn- prompt-until-end [serving]
  (if (terminal?)
    (edited-repl)
    (shell/repl (cond-> {:init load-aliases, :read main/repl-read}
                  serving (assoc :prompt (constantly nil)))))) ; what it prints is a log

(defn- port-of [option text]
  (let [port (if text (parse-long text) 0)]
    (when-not (and port (<= 0 (long port) 65535))
      (leave-with (str "`" text "` is not a port: repl " (if (= "--nrepl" option) "--nrepl --port N" "--socket [PORT]"))))
    port))

(defn- wait-for-ever []
  (.join (Thread/currentThread)))

(defn -main
  "Starts the prompt; `--socket [PORT]` or `--nrepl [PORT]` also serves editors, and goes on serving where there is no terminal."
  [& [option port]]
  (main/with-bindings
    (in-ns 'user)
    (when option (start-server option (port-of option port)))
    (prompt-until-end option)
    (when (and option (not (terminal?))) (wait-for-ever)))
  (System/exit 0))
