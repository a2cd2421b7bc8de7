(ns giro.main
  "bin/magnetar run examples/erlang/src/giro/main.clj [OPTION ..]

  Two banks, one of them on a BEAM, whose workers and connection are struck at random. Exit codes: 0 the books
  balance, 1 they do not, 2 a wrong command line, or Erlang is missing."
  (:require
   [clojure.tools.cli :as cli]
   [giro.bank :as bank]
   [giro.machine :as machine]
   [magnetar.scope :as scope]))

(set! *warn-on-reflection* true)

(defn- whole-number [^long least ^long most]
  [:parse-fn parse-long
   :validate [#(and (int? %) (<= least (long %) most))
              (format "it must be a whole number from %d to %d" least most)]])

(def ^:private options
  [(into ["-t" "--seconds N" "how long payments are made" :default 20] (whole-number 1 86400))
   (into ["-s" "--seed N" "decides what is struck"
          :default-fn (fn [_] (rand-int 1000000)) :default-desc "random"]
         (whole-number 0 1000000000))
   ["-c" "--careless" "book a deposit again that is repeated"]
   ["-h" "--help" "print this"]])

(def ^:private usage "usage: bin/magnetar run examples/erlang/src/giro/main.clj [OPTION ..]")

(defn plan
  "What the words ask for: {:options ..}, {:help text} or {:error sentence}."
  [words]
  (let [{:keys [arguments errors summary] chosen :options} (cli/parse-opts words options)]
    (cond
      (:help chosen) {:help (str usage "\n\n" summary)}
      (seq errors) {:error (str (first errors) ".")}
      (seq arguments)
      {:error (str "There is no argument " (pr-str (first arguments)) "; --help lists the options.")}

      :else {:options chosen})))

;; ---- what is printed

(def ^:private sentences
  {:open "both banks are open"
   :supervisor-here "the supervisor here is killed"
   :supervisor-there "the supervisor there is killed"
   :connection "the connection is ended"})

(defn- note
  "A function that prints what happens, with the time. Couriers are struck too often to be told of."
  []
  (let [began (System/nanoTime)]
    (fn [target]
      (when-some [sentence (sentences target)]
        (println (format "%6.1f s  %s" (/ (- (System/nanoTime) began) 1e9) sentence))
        (flush)))))

(defn summary
  "The lines that say what came of it."
  [{:keys [hits books started connected] :as outcome}]
  (let [[ours theirs] books]
    [(format "transfers   %d from here, %d from there, %d deposits repeated"
             (:sent ours) (:sent theirs) (+ (long (:repeated ours)) (long (:repeated theirs))))
     (format "killed      %d couriers here, %d there, %d supervisors here, %d there"
             (:courier-here hits) (:courier-there hits) (:supervisor-here hits) (:supervisor-there hits))
     (format "started     %d couriers here, %d there" (started bank/here 0) (started bank/there 0))
     (format "connection  ended %d times, made %d times" (:connection hits) connected)
     (format "books       %d, at first %d" (bank/money outcome) bank/at-first)
     (if (bank/balanced? outcome) "The books balance." "The books do not balance.")]))

(defn- run [{:keys [seconds seed] :as options}]
  (println "seed" seed)
  (let [until #(scope/sleep (* 1000 (long seconds)))
        outcome (bank/run (assoc options :until until :note (note)))]
    (run! println (summary outcome))
    (flush)
    (System/exit (if (bank/balanced? outcome) 0 1))))

(defn- refuse [sentence]
  (binding [*out* *err*]
    (println (str "giro: " sentence)))
  (System/exit 2))

(defn -main
  "Runs a day of the banks."
  [& words]
  (let [{:keys [help error options]} (plan words)
        missing (machine/missing)]
    (cond
      help (println help)
      error (refuse error)
      missing (refuse (str "there is no `" missing "` on the PATH. Install Erlang/OTP 25 or newer, as in "
                           "apt-get install erlang-base."))
      :else (run options))))
