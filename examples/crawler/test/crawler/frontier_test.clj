(ns crawler.frontier-test
  (:require
   [clojure.test :refer [deftest is testing]]
   [crawler.frontier :as frontier]))

(defn- page [n]
  {:url (str "http://host/" n)})

(defn- balanced? [{:keys [seen waiting in-flight finished]}]
  (= seen (+ (count waiting) in-flight finished)))

(defn- random-step
  "Returns `frontier` after one thing that can happen to it."
  [random frontier]
  (let [links (repeatedly (.nextInt random 5) #(page (.nextInt random 50)))]
    (case (.nextInt random 10)
      0       (frontier/abandon frontier)
      (1 2 3) (if (pos? (:in-flight frontier))
                (frontier/absorb frontier {:depth (.nextInt random 4), :found links})
                frontier)
      (if (frontier/next-job frontier) (frontier/hand-out frontier) frontier))))

(deftest nothing-is-ever-lost
  (doseq [seed (range 200)]
    (let [random (java.util.Random. seed)
          start  (frontier/start "http://host/" {:depth 3, :hosts #{"host"}})]
      (is (every? balanced? (take 100 (iterate #(random-step random %) start))) (str "seed " seed)))))

(defn- after-the-first-page
  "Returns the jobs that wait when the first page was found to hold `links`."
  [links options]
  (-> (frontier/start "http://host/" options)
      frontier/hand-out
      (frontier/absorb {:depth 0, :url "http://host/", :final-url "http://host/", :found links})
      :waiting))

(deftest only-new-pages-of-the-crawl-are-entered
  (let [links [(page 1) (page 1) {:url "http://host/"} {:url "http://other/"} {:bad "http://["}]]
    (testing "one host only"
      (is (= ["http://host/1" "http://["]
             (map (some-fn :url :bad) (after-the-first-page links {:depth 3, :hosts #{"host"}})))))
    (testing "any host"
      (is (= ["http://host/1" "http://other/" "http://["]
             (map (some-fn :url :bad) (after-the-first-page links {:depth 3, :hosts nil})))))
    (testing "not too deep"
      (is (empty? (after-the-first-page links {:depth 0, :hosts nil}))))))

(deftest an-abandoned-frontier-waits-only-for-what-is-under-way
  (let [frontier (-> (frontier/start "http://host/" {:depth 3, :hosts nil}) frontier/hand-out)]
    (is (not (frontier/done? (frontier/abandon frontier))))
    (is (frontier/done? (-> (frontier/abandon frontier)
                            (frontier/absorb {:depth 0, :found [(page 1)]}))))))
