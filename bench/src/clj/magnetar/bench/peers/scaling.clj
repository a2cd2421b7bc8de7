(ns magnetar.bench.peers.scaling
  "Workloads over N, from 10 to a million, and over one core and two."
  (:require
   [clojure.string :as str]
   [magnetar.bench.peers.echo :as echo]
   [magnetar.bench.peers.rounds :as rounds]
   [magnetar.bench.peers.workloads :as workloads :refer [line]]
   [magnetar.bench.statistics :as statistics])
  (:import
   (clojure.lang ExceptionInfo)))

(set! *warn-on-reflection* true)

(defn- medians [names rounds]
  (into {} (for [named names] [named (statistics/median (map #(get % named) rounds))])))

(defn- in-words [figures]
  (str/join ", " (for [[named figure] figures] (format "%s %.0f ns" named figure))))

(def flags
  "A million fibers with their channels have to fit, in each of the peers.

  Example: (last flags) => \"-Xmx5g\""
  (conj rounds/switching "-XX:+UseG1GC" "-Xms1g" "-Xmx5g"))

(defn- point
  "The figures for one N. The first pieces of work of a process warm it up."
  [{:keys [title command numbers operations needs port]} quick peers n]
  (let [numbers (numbers n)
        workload (line title command numbers (operations numbers) {} :needs needs :port port)]
    (dotimes [i (cond quick 1 (= n (first workloads/sizes)) 4 :else 1)] (rounds/one-round workload peers i))
    (medians (map :name peers) (mapv #(rounds/one-round workload peers %) (range (if quick 1 3))))))

(defn- possible?
  "Does it work with so many? The client of echo servers has no more connections than this process may have open files."
  [{:keys [up-to needs]} n]
  (and (<= (long n) (long (or up-to Long/MAX_VALUE)))
       (or (not= :echo needs) (= (long n) (echo/possible n)))))

(defn- points
  "The points of a workload for one N after the other, to the first that fails, which says so as :failed."
  [{:keys [title] :as scaled} quick peers say]
  (reduce
    (fn [points n]
      (try
        (let [figures (point scaled quick peers n)]
          (say (format "%s, N = %d: %s" title n (in-words figures)))
          (conj points {:title title :n n :figures figures}))
        (catch ExceptionInfo e
          (say (format "%s, N = %d: %s" title n (ex-message e)))
          (reduced (conj points {:title title :n n :failed (ex-message e)})))))
    []
    (filter #(possible? scaled %) workloads/sizes)))

(defn over-n
  "The points {:title .. :n .. :figures {peer ns}} of those workloads whose title `chosen?`; `here` selects peers. All sizes run in the
  same processes, from small to large.

  Example: (over-n {:quick true} filter-of-names println (constantly true))"
  [{:keys [quick]} here say chosen?]
  (vec
    (for [{:keys [title peers] :as scaled} workloads/over-n
          :when (chosen? title)
          point (rounds/with-server scaled
                  (fn [scaled]
                    (rounds/with-peers scaled (here (cons "Magnetar" peers)) {:flags flags}
                      #(points scaled quick % say))))]
      point)))

(defn- on-cores
  "The figures of a workload on so many cores; nil, with a line, if it fails."
  [{:keys [title targets] :as workload} cores options here say]
  (let [names (here (cons "Magnetar" (filter #{"Go" "Erlang"} (keys targets))))]
    (try
      (let [rounds (rounds/of-time (assoc workload :warm-ups 3 :rounds 3) names (assoc options :cores cores))
            figures (medians names rounds)]
        (say (format "%s, %d cores: %s" title cores (in-words figures)))
        figures)
      (catch Exception e
        (say (format "%s, %d cores: %s" title cores (ex-message e)))))))

(defn over-cores
  "The points {:title .. :cores .. :figures {peer ns}} of those workloads whose title `chosen?`; `here` selects peers.

  Example: (over-cores {:quick true} filter-of-names println (constantly true))"
  [options here say chosen?]
  (vec
    (for [{:keys [title] :as workload} workloads/timed
          :when (and (workloads/over-cores title) (chosen? title))
          cores [1 2]
          :let [figures (on-cores workload cores options here say)]
          :when figures]
      {:title title :cores cores :figures figures})))
