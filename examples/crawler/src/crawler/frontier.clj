(ns crawler.frontier
  "What is known, what waits, what is under way: a crawl's state as one immutable value.

  Every address that enters leaves with exactly one outcome: `seen = waiting + in-flight + finished`, at all
  times."
  (:require
   [crawler.url :as url])
  (:import
   (clojure.lang PersistentQueue)))

(defn- wanted?
  "True when `link` belongs to the crawl: a page of its hosts, or an address that cannot be parsed."
  [{:keys [hosts]} {:keys [bad] :as link}]
  (or bad (nil? hosts) (contains? hosts (url/host (:url link)))))

(defn- address [{:keys [url bad]}]
  (or url bad))

(defn- discover
  "Adds `link`, found on the page `via`, `depth` steps from the start, unless it is known or not wanted."
  [{:keys [known] :as frontier} link depth via]
  (if (or (contains? known (address link)) (not (wanted? frontier link)))
    frontier
    (-> frontier
        (update :known conj (address link))
        (update :waiting conj (assoc link :depth depth, :via via))
        (update :seen inc))))

(defn start
  "Returns a frontier that holds the address `text` only. `:depth` bounds the steps from there; `:hosts` is
  the set of hosts to stay on, nil for any."
  [text {:keys [depth hosts]}]
  (let [link (url/parse text)]
    (discover {:depth depth, :hosts hosts, :known #{}, :waiting PersistentQueue/EMPTY
               :in-flight 0, :finished 0, :seen 0}
              (if (:url link) link {:bad text, :why (:why link)})
              0
              nil)))

(defn next-job
  "Returns the job to do next, nil when none waits."
  [frontier]
  (peek (:waiting frontier)))

(defn hand-out
  "Returns `frontier` after its next job went to work."
  [frontier]
  (-> frontier
      (update :waiting pop)
      (update :in-flight inc)))

(defn absorb
  "Returns `frontier` after a job came back as `outcome`, with the pages it found."
  [{max-depth :depth :as frontier} {:keys [depth found url final-url]}]
  (let [deeper   (inc depth)
        frontier (cond-> (-> frontier (update :in-flight dec) (update :finished inc))
                   final-url (update :known conj final-url))]
    (if (<= deeper max-depth)
      (reduce #(discover %1 %2 deeper url) frontier found)
      frontier)))

(defn abandon
  "Returns `frontier` with nothing waiting, and closed to further pages: only what is under way can still finish."
  [{:keys [waiting] :as frontier}]
  (-> frontier
      (assoc :waiting PersistentQueue/EMPTY, :depth -1)
      (update :finished + (count waiting))))

(defn done?
  "True when nothing waits and nothing is under way."
  [{:keys [waiting in-flight]}]
  (and (empty? waiting) (zero? in-flight)))
